#pragma once
// What the forward pass hands to the backward pass through torch's dispatcher, where only tensors
// go: the batch's statistics, from which everything else follows. While the tensor lives, so does
// what forward made of them, and backward takes that; of a copy it is made anew.

#include "core/statistics.h"
#include "ops/layers.h"

namespace orthobatch::ops {

/// (1 + C + the blocks of Σ) doubles.
int64_t tape_size(const Layer& layer);

/// Statistics as a tensor, and back.
core::Vector packed(const core::Statistics& statistics);
core::Statistics unpacked(const Tensor& tape, const Layer& layer);

Tensor record(const core::Statistics& statistics, nn::LayerCall made);

/// The same call again. The tape must be of that layer.
std::shared_ptr<const nn::LayerCall> replay(const Tensor& tape, const Call& call, core::Real real,
                                            int64_t sample_stride);

/// How often `replay` had to make the call anew, so far.
int64_t replays_from_copies();

}  // namespace orthobatch::ops
