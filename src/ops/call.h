#pragma once
// What the operators share: the tensors of a call and what is refused, the statistics of a batch, and
// the map of a layer from those or from running averages.

#include <array>
#include <vector>

#include "kernels/passes.h"
#include "ops/consumer.h"
#include "ops/layer.h"

namespace orthobatch::ops {

using MapPointer = std::shared_ptr<const core::LayerMap>;

/// The tensors that an output depends on, or the gradients to them; undefined where absent.
struct Inputs {
  Tensor x, weight, bias, skew;  // of the layer
  Tensor read;                   // what the consumer reads in the place of x, an affine image of it
  Tensor consumer_weight, consumer_bias;

  std::array<Tensor*, 7> all() {
    return {&x, &weight, &bias, &skew, &read, &consumer_weight, &consumer_bias};
  }
  core::LayerParameters parameters() const;
};

/// A call of a layer, with what consumes its output where that is folded.
struct Call {
  /// Checks everything that can be checked without statistics.
  Call(c10::string_view text, const Inputs& inputs, at::IntArrayRef consumer);

  std::shared_ptr<const KnownLayer> layer;
  Inputs in;  // x and read dense
  core::Real real;
  std::shared_ptr<const Consumer> consumer;  // null: none
  Tensor weight;                             // of the consumer, (C_out, C_in of a group, taps…)
  std::vector<int64_t> padded;               // what stands around Z beforehand, where zeros do

  bool empty() const { return in.x.numel() == 0; }
  const Tensor& read() const { return in.read.defined() ? in.read : in.x; }
  /// Whether P goes into the consumer's weights: exact enough as P X + q, and nothing between groups
  /// of channels that are read apart.
  bool folds(const core::LayerMap& map) const;
  /// Of Z, or of what the consumer makes of it.
  std::vector<int64_t> output_sizes() const;
};

/// Throws where they are not those of the layer.
void check_parameters(const KnownLayer& layer, const Inputs& in);

/// Throws where a tensor has other sizes.
void check_sizes(const KnownLayer& layer, const char* name, const Tensor& t, at::IntArrayRef sizes);

/// Throws where statistics cannot be had of this input, or, in a group, of no input at all.
void check_samples(const Call& call);

/// Of the batch, with those of the group's other processes. Values that are not finite or too large
/// are refused; in a group, by every process.
core::Statistics batch_statistics(const Call& call);
MapPointer map_of(const Call& call, core::Statistics statistics);

/// Running averages, as tensors.
struct Average {
  Tensor mean, statistic, last;
};
/// Throws where it is not one of the layer.
void check_average(const KnownLayer& layer, const Average& average);
/// The map of an average, made once while that and the parameters stay as they are.
MapPointer map_of(const KnownLayer& layer, const Inputs& inputs, const Average& average);

/// Blocks as tensors of `statistic_sizes`, double; and back.
Average to_tensors(const KnownLayer& layer, const core::Vector& mean,
                   const core::BlockMatrix& blocks);
core::BlockMatrix to_blocks(const KnownLayer& layer, const Tensor& statistic, const Tensor& last);

/// Every `stride`-th place of an (N, C, …) tensor in each direction, as a view; all of an (N, C) one.
Tensor sampled(Tensor x, int64_t stride);
/// What the statistics add to ∇X, at the places they were taken from. dx has the layout of x.
void add_statistics_gradient(Tensor& dx, const Tensor& x, const core::GradientMap& map,
                             int64_t stride);

}  // namespace orthobatch::ops
