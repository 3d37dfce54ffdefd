#pragma once
// What a layer is, apart from its tensors, and the text that stands for it among the arguments of an
// operator:
//
//   BatchOrtho2d(64, "ZCA(1e-5)", sample_stride=2, running_average=transform, group=3) 'block2.norm'
//
// A text goes through scripts, exported graphs, torch.compile and pickles on every torch there is; an
// object of the dispatcher's does not.

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "core/layer.h"
#include "orthobatch/options.h"

namespace orthobatch::ops {

using at::Tensor;
using OptionalTensor = c10::optional<Tensor>;

/// A tensor of ours, undefined where there is none, as an argument of operators; and back.
inline OptionalTensor optional(const Tensor& t) {
  return t.defined() ? OptionalTensor(t) : OptionalTensor();
}
inline Tensor value_or_none(const OptionalTensor& t) {
  return t.has_value() ? *t : Tensor();  // NOLINT(bugprone-unchecked-optional-access)
}

/// Statistics of more channels would take tens of gigabytes and days to factor.
constexpr int64_t max_features = 1 << 16;

struct Layer {
  int64_t dims = 2;  // 1, 2, 3
  int64_t num_features = 0;
  LayerSpec spec = "BN";
  int64_t sample_stride = 1;
  RunningAverage average = RunningAverage::covariance;
  int64_t group = 0;  // of processes, by its number; 0: none
  std::string name;

  bool operator==(const Layer& other) const;

  /// The whole text. Throws where there is no such layer.
  std::string text() const;
  /// For messages: BatchOrtho2d(64, "ZCA(1e-5)"), with the name where it has one.
  std::string description() const;
};

/// A layer with what is made once for all of its calls.
struct KnownLayer : Layer, std::enable_shared_from_this<KnownLayer> {
  explicit KnownLayer(Layer layer);

  std::string who;  // its description
  core::LayerAlgebra algebra;
  bool per_channel;  // its statistic is C variances

  bool averages_transform() const { return average == RunningAverage::transform; }
  bool has_group() const { return group != 0; }
};

/// The layer of a text, kept for the next call. Throws where the text is none.
std::shared_ptr<const KnownLayer> layer_of(c10::string_view text);

/// The spec of a text, with that ε where one is given. A bad one is torch's ValueError, which every
/// version hands on to Python as such; not every one does a std::invalid_argument.
LayerSpec spec_of(c10::string_view text, c10::optional<double> eps = c10::nullopt);

/// What a user would want to know of a layer before its first batch, a sentence each: a BLAS that
/// takes the processor for another, hundreds of channels whitened together.
std::vector<std::string> advice(const KnownLayer& layer);

/// Whether the spec sees each channel alone.
bool is_per_channel(const LayerSpec& spec);

/// Whether a state of one spec means the same to the other: arguments that are numbers may differ.
bool same_state(const LayerSpec& a, const LayerSpec& b);

/// Throws where it is not from 0 to 1.
void check_momentum(const c10::optional<double>& momentum, const std::string& who);

/// The sizes of a running covariance or transform: C×C, or (groups, g, g), and of a smaller last
/// group, r×r; empty where there is none.
struct StatisticSizes {
  std::vector<int64_t> blocks, last;
};
StatisticSizes statistic_sizes(const LayerSpec& spec, int64_t num_features,
                               RunningAverage average = RunningAverage::covariance);

}  // namespace orthobatch::ops
