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

namespace core {
class LayerAlgebra;
struct Fold;
}  // namespace core
namespace nn {
struct CachedFold;
struct Callee;
struct LayerCall;
struct Sampling;
class LayerRun;
}  // namespace nn

/// What one batch looked like to a layer, kept from its last forward pass in training.
struct BatchReport {
  int64_t samples = 0;       ///< M; 0: no batch seen yet
  torch::Tensor covariance;  ///< Σ as conditioned by the method, double, C×C (C for BN)
  int64_t floored = 0;       ///< eigenvalues or pivots raised to the floor
  int64_t null = 0;          ///< directions without variance, 0 in T
  int64_t exchanges = 0;     ///< pivots that were not the next channel; PLDLP alone
  /// Batches so far whose map went into no weights, as that would have cost accuracy; counted by
  /// FoldedConv2d and its like.
  int64_t unfolded = 0;
};

/// What BatchOrtho1d/2d/3d share, whatever their rank; reached through dynamic_cast in a walk over
/// a net's modules.
class BatchOrthoLayer {
 public:
  virtual ~BatchOrthoLayer();

  BatchOrthoOptions options;

  torch::Tensor weight;             ///< γ, C; undefined without affine and in specs ending in ->W
  torch::Tensor bias;               ///< b, C; undefined without affine
  torch::Tensor skew;               ///< strictly lower S by rows, C(C−1)/2; specs with W alone
  torch::Tensor running_mean;       ///< C
  torch::Tensor running_cov;        ///< C×C, double whatever the layer's type; not for BN
  torch::Tensor running_var;        ///< C; BN alone, unbiased as torch keeps it
  torch::Tensor running_transform;  ///< C×C, double; with RunningAverage::transform alone
  torch::Tensor num_batches_tracked;  ///< int64 scalar

  /// BatchOrtho2d(64, "ZCA(1e-5,1e12)"), with the name where it has one.
  std::string description() const;

  const BatchReport& last_batch() const { return last_batch_; }

  /// γ to 1, b and S to 0, and the running statistics as new.
  void reset_parameters();
  /// μ̂ to 0, Σ̂ (or the transform) to the identity, no batches tracked.
  void reset_running_stats();

 protected:
  BatchOrthoLayer(const BatchOrthoOptions& options, int64_t dims);
  BatchOrthoLayer(const BatchOrthoLayer&) = default;
  BatchOrthoLayer(BatchOrthoLayer&&) = default;
  BatchOrthoLayer& operator=(const BatchOrthoLayer&) = default;
  BatchOrthoLayer& operator=(BatchOrthoLayer&&) = default;

  torch::Tensor run(const torch::Tensor& input, bool training);

  /// The buffers whose type does not follow the layer's: double, or integer.
  std::vector<torch::Tensor*> exact_buffers();

  /// One tensor of the layer's state, with the shape it has to have.
  struct Entry {
    const char* name;
    const torch::Tensor* tensor;
    std::vector<int64_t> shape;
  };
  std::vector<Entry> state() const;
  void save_spec(torch::serialize::OutputArchive& archive) const;
  /// Throws where the archive holds the state of another layer.
  void check_archive(torch::serialize::InputArchive& archive) const;

 private:
  friend class nn::LayerRun;

  const char* type() const;
  nn::Callee callee() const;
  /// The map of a call, from the statistics of the dense input or from the running ones.
  nn::Sampling sampling() const;
  nn::LayerCall call_on_batch(const torch::Tensor& x) const;
  nn::LayerCall call_on_average();
  std::shared_ptr<const nn::CachedFold> folded_average();
  /// Takes note of a batch once its output stands.
  void take_batch(const core::Fold& fold, bool update_running, bool unfolded);
  /// With the statistics of last_batch_.
  void update_running_average(const core::Fold& fold);
  /// Parameters and buffers may be set from outside: their shapes and types are those of the layer.
  void check_state() const;

  int64_t dims_;
  std::shared_ptr<const core::LayerAlgebra> algebra_;
  std::shared_ptr<const nn::CachedFold>
      cached_;  // immutable, swapped atomically: copies may share it
  BatchReport last_batch_;
  bool warned_null_ = false, warned_few_ = false;
};

template <size_t D, typename Derived>
class BatchOrthoImplBase : public torch::nn::Cloneable<Derived>, public BatchOrthoLayer {
 public:
  BatchOrthoImplBase(int64_t channels, const LayerSpec& spec)
      : BatchOrthoImplBase(BatchOrthoOptions(channels, spec)) {}
  explicit BatchOrthoImplBase(const BatchOrthoOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);

  /// As torch's modules, with the spec beside the tensors.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Refuses a state of other channels or of another spec, and leaves the layer as it is; a state
  /// without a spec, as torch's BatchNorm writes it, is taken where its shapes fit.
  /// The arguments of the method (ε, K, …) may be others.
  void load(torch::serialize::InputArchive& archive) override;

  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;
};

/// Over (N, C) or (N, C, L).
class BatchOrtho1dImpl : public BatchOrthoImplBase<1, BatchOrtho1dImpl> {
 public:
  using BatchOrthoImplBase<1, BatchOrtho1dImpl>::BatchOrthoImplBase;
};

/// Over (N, C, H, W).
class BatchOrtho2dImpl : public BatchOrthoImplBase<2, BatchOrtho2dImpl> {
 public:
  using BatchOrthoImplBase<2, BatchOrtho2dImpl>::BatchOrthoImplBase;
};

/// Over (N, C, D, H, W).
class BatchOrtho3dImpl : public BatchOrthoImplBase<3, BatchOrtho3dImpl> {
 public:
  using BatchOrthoImplBase<3, BatchOrtho3dImpl>::BatchOrthoImplBase;
};

TORCH_MODULE(BatchOrtho1d);
TORCH_MODULE(BatchOrtho2d);
TORCH_MODULE(BatchOrtho3d);

/// The BatchOrtho layers inside a net with their paths ("block2.norm"), in the order of the net.
std::vector<std::pair<std::string, BatchOrthoLayer*>> layers_of(torch::nn::Module& net);
std::vector<std::pair<std::string, const BatchOrthoLayer*>> layers_of(const torch::nn::Module& net);

/// Gives every BatchOrtho layer of a net its path in the net ("block2.norm") as its name, so that
/// messages say which layer they mean.
void name_layers(torch::nn::Module& net);

/// Gives every BatchOrtho layer of a net the group. All ranks call it with the same net: they
/// compare what layers they have, and each throws where a rank has others.
void synchronize(torch::nn::Module& net, const ProcessGroup& group);

}  // namespace orthobatch
