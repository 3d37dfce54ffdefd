#pragma once
// A call of a layer, whoever owns its tensors: what is refused, and the map from statistics.

#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/function.h"
#include "orthobatch/spec.h"

namespace orthobatch::nn {

/// Who is called. It refers to what it was made from.
struct Callee {
  const char* type;  // "BatchOrtho2d"
  int64_t dims;      // 1, 2, 3
  int64_t channels;
  const LayerSpec& spec;
  const std::string& name;
  const std::shared_ptr<const core::LayerAlgebra>& algebra;
  const torch::Tensor &weight, &bias, &skew;  // undefined where absent

  /// BatchOrtho2d(64, "ZCA(1e-5)"), with the name where it has one.
  std::string description() const;
  core::LayerParameters parameters() const;
};

/// Throws where the layer is of more channels than it could ever factor, or of none.
void check_channels(const char* type, int64_t channels);

/// Throws where the input has another number of dimensions than the layer's.
void check_rank(const Callee& callee, const torch::Tensor& input);

/// Throws where a tensor of the layer has another shape.
void check_shape(const Callee& callee, const char* name, const torch::Tensor& t,
                 torch::IntArrayRef shape);

/// Throws where the input is not what the layer takes; `own` are the layer's tensors of its type.
void check_input(const Callee& callee, const torch::Tensor& input,
                 const std::vector<torch::Tensor>& own);

/// Where the statistics of a batch come from.
struct Sampling {
  int64_t stride = 1;       // of the places, in each direction
  ProcessGroup group = {};  // with whose batches they are merged, where there is one
  double largest = 0;       // a variance above it is refused
};

/// Throws where statistics cannot be had of this input, or, in a group, of no input at all.
void check_samples(const Callee& callee, const torch::Tensor& input, const Sampling& sampling);

/// The statistics of the dense input. Values that are not finite or too large are refused; in a
/// group, by every rank.
core::Statistics batch_statistics(const Callee& callee, const torch::Tensor& x,
                                  const Sampling& sampling);
/// Throws where they are not finite or too large; `of_ranks` are those of several processes.
void check_statistics(const Callee& callee, const core::Statistics& statistics,
                      const torch::Tensor& x, const Sampling& sampling, bool of_ranks);
/// The map from them.
LayerCall call_on_statistics(const Callee& callee, core::Statistics statistics, core::Real real,
                             const Sampling& sampling);

/// What a running average of a layer was, by value.
struct Average {
  core::Real real;
  bool transform;  // `statistic` is T; else the variances or the conditioned covariance
  core::Vector mean, statistic;
  core::LayerParameters parameters;

  bool operator==(const Average& other) const;
};
Average average_of(const Callee& callee, const torch::Tensor& mean, const torch::Tensor& statistic,
                   bool transform);
/// Throws where it is not finite.
std::shared_ptr<const core::Fold> fold_average(const Callee& callee, const Average& average);

/// A diagonal as C values, anything else as C×C, double.
torch::Tensor statistic_tensor(const core::BlockMatrix& m, bool diagonal);

/// average ← (1−momentum) average + momentum value, in the average's own type.
void average_into(torch::Tensor& average, const torch::Tensor& value, double momentum);

/// Whether the spec sees each channel alone.
bool is_per_channel(const LayerSpec& spec);

/// The largest variance that a running variance in that type can take; for whatever is kept in
/// double, that of double.
double largest_variance(const LayerSpec& spec, core::Real real);

/// Whether a state of one spec means the same to the other: arguments that are numbers may differ.
bool same_state(const LayerSpec& a, const LayerSpec& b);

/// Throws where it is not from 0 to 1.
void check_momentum(const c10::optional<double>& momentum, const std::string& description);

}  // namespace orthobatch::nn
