#pragma once
// The passes over the data: four, and one that stands for the last where P is folded into what
// reads Z. They know channels and samples, block-diagonal matrices and
// constants; nothing of methods, parameters or autograd. The maps they compute are those of
// core/affine.h.
//
// X is N channels × M samples, M = batch · positions; tensors are (batch, N, …) in any dense
// layout. Statistics and small matrices are double whatever the tensor holds. `center` is a
// constant subtracted from every sample before it is multiplied, so that a mean that is large
// against the deviation does not cancel.

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/affine.h"
#include "core/statistics.h"

namespace orthobatch::kernels {

using core::AffineMap;
using core::BlockMatrix;
using core::GradientMap;
using core::GradientSums;
using core::Statistics;
using core::Sums;
using core::Vector;

/// x with its memory dense in one of the layouts the passes read: itself where it is already.
at::Tensor dense_layout(const at::Tensor& x);

/// g in the layout of x (dense): itself where it is already.
at::Tensor same_layout(const at::Tensor& g, const at::Tensor& x);

/// Of a tensor whose type is float or double.
core::Real real_of(const at::Tensor& x);

/// The numbers of a map beside the data, for passes on another device: the entries of block matrices
/// in their order, in the type that the pass computes in. All undefined on the CPU, whose passes read
/// the map itself; a `center` or `offset` of zeros is undefined.
struct Placed {
  at::Tensor P, Q, center, offset;
};

/// Tensors whose values come to the host in the same transfer as the statistics.
struct Along {
  std::vector<at::Tensor> tensors;
  std::vector<Vector> values;  // empty for an undefined tensor
};

class Passes {
 public:
  virtual ~Passes() = default;

  /// Forward 1: mean and covariance, the latter in blocks of `block` channels.
  virtual Statistics moments(const at::Tensor& x, int64_t block, Sums sums = Sums::in_type,
                             Along* along = nullptr) const = 0;

  /// Forward 2: Z = P (X − center) + offset.
  virtual at::Tensor transform(const at::Tensor& x, const AffineMap& map,
                               const Placed& placed = {}) const = 0;

  /// Backward 1: B and G1.
  virtual GradientSums products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                                int64_t block, Sums sums, const Placed& placed = {}) const = 0;

  /// Backward 2: ∇X = Pᵀ G + Q (X − center) + offset; an empty Q leaves its term out. Beyond the
  /// range of the type it is the type's largest number.
  virtual at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x,
                                    const GradientMap& map, const Placed& placed = {}) const = 0;

  /// What the statistics add to ∇X, in place: dx += Q (X − center) + offset. dx has the layout of
  /// x. The map's P is not used; there is a Q.
  virtual void add_statistics_gradient(at::Tensor& dx, const at::Tensor& x, const GradientMap& map,
                                       const Placed& placed = {}) const = 0;

  /// G 1: the sum of each channel over all samples, in double beside the data.
  virtual at::Tensor channel_sums(const at::Tensor& g) const = 0;

  // Of data whose channels are in `groups` equal groups; values by sample and group, (samples,
  // groups), stand beside the data in double.
  /// Σ_c x_c v_c over the channels of a group, for each sample and group. `placed` is v.
  virtual at::Tensor dots(const at::Tensor& x, const Vector& v, int64_t groups,
                          const at::Tensor& placed = {}) const = 0;
  /// B of weights w and their gradients, G Xᵀ = w ∇w̃ᵀ, with Σ_s w_sc d_s over all samples for each
  /// channel as the sum, d that of the sample and the channel's group.
  virtual GradientSums weight_products(const at::Tensor& w, const at::Tensor& folded,
                                       const at::Tensor& by_sample, int64_t block,
                                       int64_t groups) const = 0;
};

/// Threaded kernels for CPU tensors.
const Passes& cpu_passes();

/// ATen's operations, for tensors of any device: float data in float products, summed in double over
/// chunks of samples. A pass takes one transfer to the host or from it, and none to the device where
/// its map is placed already.
const Passes& aten_passes();

/// The map beside a tensor of data, in the type that the passes compute in: vectors that were brought
/// there by `to_device` in the order P, center, offset.
Placed place(const AffineMap& map, const at::Tensor& like);
Placed placed_map(const AffineMap& map, const at::Tensor* values, const at::Tensor& like);
/// The entries of Mᵀ from those of M in blocks.
at::Tensor transposed_blocks(const at::Tensor& values, int64_t n, int64_t block);

/// The ones for a tensor's device.
const Passes& passes_for(const at::Tensor& x);

}  // namespace orthobatch::kernels
