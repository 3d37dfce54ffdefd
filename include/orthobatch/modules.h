#pragma once
// BatchOrtho1d, BatchOrtho2d, BatchOrtho3d: modules that stand where BatchNorm1d/2d/3d stood.
//
// Training:    Z = R T (X − μ) + b with the batch's own μ and T = T(Σ)
// Evaluation:  Z = P X + q from the running statistics, folded once and again only after a change
//
// Z has the type and shape of X, and its memory layout where that is contiguous or channels last
// (any other comes out as torch suggests). Float and double; on the CPU with kernels of our own, on
// other devices through ATen operations.

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orthobatch/options.h"

namespace orthobatch {

namespace nn {
struct Access;
}  // namespace nn

/// What one batch looked like to a layer.
struct BatchReport {
  int64_t samples = 0;  ///< M; 0: no batch seen yet
  /// Σ as conditioned by the method, double, in the sizes of `running_cov` (C for BN) …
  torch::Tensor covariance;
  torch::Tensor covariance_last;  ///< … and of `running_cov_last`
  int64_t floored = 0;            ///< eigenvalues or pivots raised to the floor
  int64_t null = 0;               ///< directions without variance, 0 in T
  int64_t empty = 0;              ///< those with less variance than ε, divided by about √ε in T
  int64_t exchanges = 0;          ///< pivots that were not the next channel; PLDLP alone
  /// Batches so far whose map went into no weights, as that would have cost accuracy; counted by
  /// FoldedConv2d and its like.
  int64_t unfolded = 0;
};

/// What BatchOrtho1d/2d/3d share, whatever their dimensions; reached through dynamic_cast in a walk
/// over a net's modules.
class ORTHOBATCH_API BatchOrthoLayer {
 public:
  virtual ~BatchOrthoLayer();

  BatchOrthoOptions options;

  torch::Tensor weight;        ///< γ, C; undefined without affine and in specs ending in ->W
  torch::Tensor bias;          ///< b, C; undefined without affine
  torch::Tensor skew;          ///< strictly lower S by rows, C(C−1)/2; specs with W alone
  torch::Tensor running_mean;  ///< C
  torch::Tensor running_var;   ///< C; BN alone, unbiased as torch keeps it
  /// Double whatever the layer's type: C×C, or (groups, g, g) with group_size=g; not for BN.
  torch::Tensor running_cov;
  torch::Tensor running_cov_last;  ///< r×r; of the smaller last group where g does not divide C
  /// The same of T, with RunningAverage::transform alone.
  torch::Tensor running_transform, running_transform_last;
  torch::Tensor num_batches_tracked;  ///< int64 scalar

  /// Evaluates with its running statistics whatever train() says; see `freeze`.
  bool frozen = false;

  /// BatchOrtho2d(64, "ZCA(1e-5)"), with the name where it has one.
  std::string description() const;

  /// Of the last forward pass in training.
  BatchReport last_batch() const;

  /// γ to 1, b and S to 0, and the running statistics as new.
  void reset_parameters();
  /// μ̂ to 0, Σ̂ (or the transform) to the identity, no batches tracked.
  void reset_running_stats();

 protected:
  BatchOrthoLayer(const BatchOrthoOptions& options, int64_t dims);
  BatchOrthoLayer(const BatchOrthoLayer& other);
  BatchOrthoLayer& operator=(const BatchOrthoLayer& other);

 private:
  friend struct nn::Access;
  struct Own;
  std::unique_ptr<Own> own_;
};

template <size_t D, typename Derived>
class ORTHOBATCH_API BatchOrthoImplBase : public torch::nn::Cloneable<Derived>,
                                          public BatchOrthoLayer {
 public:
  BatchOrthoImplBase(int64_t num_features, const LayerSpec& spec)
      : BatchOrthoImplBase(BatchOrthoOptions(num_features, spec)) {}
  explicit BatchOrthoImplBase(const BatchOrthoOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);

  /// Takes these very tensors as its scale and bias, where it has such; an optimizer may hold them.
  void share_parameters(const torch::Tensor& weight, const torch::Tensor& bias);

  /// As torch's modules, with the spec beside the tensors.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Refuses a state of other channels or of another spec, and leaves the layer as it is. The state of
  /// a BatchNorm is taken: scale, bias and mean as they are, variances without correlations.
  /// The arguments of the method (ε, …) may be others.
  void load(torch::serialize::InputArchive& archive) override;

  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;
};

/// Over (N, C) or (N, C, L).
class ORTHOBATCH_API BatchOrtho1dImpl : public BatchOrthoImplBase<1, BatchOrtho1dImpl> {
 public:
  using BatchOrthoImplBase<1, BatchOrtho1dImpl>::BatchOrthoImplBase;
};

/// Over (N, C, H, W).
class ORTHOBATCH_API BatchOrtho2dImpl : public BatchOrthoImplBase<2, BatchOrtho2dImpl> {
 public:
  using BatchOrthoImplBase<2, BatchOrtho2dImpl>::BatchOrthoImplBase;
};

/// Over (N, C, D, H, W).
class ORTHOBATCH_API BatchOrtho3dImpl : public BatchOrthoImplBase<3, BatchOrtho3dImpl> {
 public:
  using BatchOrthoImplBase<3, BatchOrtho3dImpl>::BatchOrthoImplBase;
};

TORCH_MODULE(BatchOrtho1d);
TORCH_MODULE(BatchOrtho2d);
TORCH_MODULE(BatchOrtho3d);

}  // namespace orthobatch
