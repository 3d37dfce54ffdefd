#pragma once
// What the forward pass hands to the backward pass and to the running averages through torch's
// dispatcher, where only tensors go: what was counted, and the batch's statistics, from which all else
// follows. The tensor's memory holds what was made of them too; of a copy it is made anew.

#include "ops/call.h"

namespace orthobatch::ops {

/// The values that stand first.
enum Counts { samples, floored, null, exchanges, unfolded, empty, counts };

/// counts, μ and the blocks of Σ: doubles.
int64_t tape_size(const KnownLayer& layer);

Tensor record(const core::Statistics& statistics, Made made, bool was_unfolded);
/// A tape of any values; and what it was made with, empty for a copy.
Tensor tape_of(core::Vector values, Made made);
Made kept_by(const Tensor& tape);

/// The same again. The tape must be of that layer; parameters and type are for a copy.
Made replay(const Tensor& tape, const Call& call);
/// The map alone, where there is no input.
MapPointer replay(const Tensor& tape, const Tensor& weight, const KnownLayer& layer);
/// Throws where it is none of that layer.
void check_tape(const Tensor& tape, const KnownLayer& layer);
/// γ alone: of a layer that turns nothing yet.
core::LayerParameters scale_alone(const KnownLayer& layer, const Tensor& weight);

/// What a user would want to know of a batch, from its counts; empty where there is nothing.
std::string warning_of(const KnownLayer& layer, const double* counts);

/// How often `replay` had to make the map anew, so far.
int64_t replays_from_copies();

}  // namespace orthobatch::ops
