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
  Inputs in;           // x and read dense, and in float where they came in half precision
  Tensor as_came;      // what the consumer reads, in the type it came in
  at::ScalarType type;  // that the input came in
  core::Real real;
  std::shared_ptr<const Consumer> consumer;  // null: none
  Tensor weight;                             // of the consumer, (C_out, C_in of a group, taps…)
  std::vector<int64_t> padded;               // what stands around Z beforehand, where zeros do

  bool empty() const { return in.x.numel() == 0; }
  bool on_cpu() const { return in.x.is_cpu(); }
  /// Of Z, or of what the consumer makes of it.
  at::ScalarType output_type() const { return consumer ? weight.scalar_type() : type; }
  const Tensor& read() const { return in.read.defined() ? in.read : in.x; }
  /// Whether P goes into the consumer's weights: exact enough as P X + q, and nothing between groups
  /// of channels that are read apart.
  bool folds(const core::LayerMap& map) const;
  /// Of Z, or of what the consumer makes of it.
  std::vector<int64_t> output_sizes() const;
};

/// Types whose data are computed in float.
inline bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

/// Throws where they are not those of the layer.
void check_parameters(const KnownLayer& layer, const Inputs& in);

/// Throws where a tensor has other sizes.
void check_sizes(const KnownLayer& layer, const char* name, const Tensor& t, at::IntArrayRef sizes);

/// Throws where statistics cannot be had of this input, or, in a group, of no input at all.
void check_samples(const Call& call);

/// Running averages, as tensors.
struct Average {
  Tensor mean, statistic, last;
};

/// A map, and what was made of it.
struct Made {
  MapPointer map;
  Tensor folded_weight;  // where a consumer was folded; undefined: to be made anew

  // Beside the data, where those are not on the CPU:
  kernels::Placed placed{};  // the map
  at::ScalarType type{};     // of data that it was placed for
  Tensor q{};                // of P X + q
  Average average{};         // what the running averages take of the batch, in the exact type

  kernels::Placed uncentered() const { return {placed.P, {}, {}, q}; }
};

/// The statistics of a batch, with those of the group's other processes, and the map. Values that are
/// not finite or too large are refused; in a group, by every process. Away from the CPU it takes a
/// transfer in each direction, and two where float products would not do.
struct Batch {
  core::Statistics statistics;
  Made made;
};
Batch batch_of(const Call& call);
/// The map of statistics that are known.
Made made_of(const Call& call, core::Statistics statistics);
/// Throws where it is not one of the layer.
void check_average(const KnownLayer& layer, const Average& average);
/// The map of an average, made once while that and the parameters stay as they are. Placed beside
/// inputs.x, where there is one.
std::shared_ptr<const Made> made_of(const KnownLayer& layer, const Inputs& inputs,
                                    const Average& average);

/// Blocks as tensors of `statistic_sizes`, double; and back.
Average to_tensors(const KnownLayer& layer, const core::Vector& mean,
                   const core::BlockMatrix& blocks);
/// The same of tensors that are there already.
Average in_sizes(const KnownLayer& layer, const Tensor& mean, const Tensor& blocks);
core::BlockMatrix to_blocks(const KnownLayer& layer, core::Vector statistic,
                            const core::Vector& last);

/// Every `stride`-th place of an (N, C, …) tensor in each direction, as a view; all of an (N, C) one.
Tensor sampled(Tensor x, int64_t stride);
/// What the statistics add to ∇X, at the places they were taken from. dx has the layout of x.
void add_statistics_gradient(Tensor& dx, const Tensor& x, const core::GradientMap& map,
                             const kernels::Placed& placed, int64_t stride);

}  // namespace orthobatch::ops
