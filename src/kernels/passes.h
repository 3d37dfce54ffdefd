#pragma once
// The four passes over the data. They know channels and samples, block-diagonal matrices and
// constants; nothing of methods, parameters or autograd.
//
// X is N channels × M samples, M = batch · positions; tensors are (batch, N, …) in any dense
// layout. Statistics and small matrices are double whatever the tensor holds. `center` is a
// constant subtracted from every sample before it is multiplied, so that a mean that is large
// against the deviation does not cancel.

#include <ATen/core/Tensor.h>

#include "core/block_matrix.h"

namespace orthobatch::kernels {

struct Moments {
  Vector mean;             // μ, N
  BlockMatrix covariance;  // Xc Xcᵀ / M
};

struct Products {
  BlockMatrix B;  // G (X − center)ᵀ
  Vector sum;     // G 1
};

/// x with its memory dense in one of the layouts the passes read: itself where it is already.
at::Tensor dense_layout(const at::Tensor& x);

/// g in the layout of x (dense): itself where it is already.
at::Tensor same_layout(const at::Tensor& g, const at::Tensor& x);

/// The mean rounded to what the tensor's type holds, so that X − center is exact where it matters.
Vector center_of(const Vector& mean, at::ScalarType type);

/// The type in which the products with float data are summed; of double data it is double.
enum class Sums { in_type, in_double };

class Passes {
 public:
  virtual ~Passes() = default;

  /// Forward 1: mean and covariance, the latter in blocks of `block` channels.
  virtual Moments moments(const at::Tensor& x, int64_t block) const = 0;

  /// Forward 2: Z = P (X − center) + offset.
  virtual at::Tensor transform(const at::Tensor& x, const BlockMatrix& P, const Vector& center,
                               const Vector& offset, Sums sums) const = 0;

  /// Backward 1: B and G1.
  virtual Products products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                            int64_t block, Sums sums) const = 0;

  /// Backward 2: ∇X = Pᵀ G + Q (X − center) + offset; an empty Q leaves its term out.
  virtual at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x, const BlockMatrix& P,
                                    const BlockMatrix& Q, const Vector& center,
                                    const Vector& offset, Sums sums) const = 0;
};

/// Threaded kernels for CPU tensors.
const Passes& cpu_passes();

/// Plain ATen operations, for tensors of any device.
const Passes& aten_passes();

/// The ones for a tensor's device.
const Passes& passes_for(const at::Tensor& x);

}  // namespace orthobatch::kernels
