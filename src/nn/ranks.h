#pragma once
// Statistics and sums of several processes, one collective each.

#include <functional>

#include "core/statistics.h"
#include "orthobatch/process_group.h"

namespace orthobatch::nn {

/// Of the samples of all ranks, merged in their order: the same bits on every rank. Those without
/// samples (0, zeros) count for nothing; `samples` is 0 where no rank has any.
core::Statistics merge_ranks(const ProcessGroup& group, const core::Statistics& own);

/// The sums over the samples of all ranks: begun, and there when what it returns is called.
std::function<core::GradientSums()> sum_over_ranks(const ProcessGroup& group,
                                                   const core::GradientSums& own);

}  // namespace orthobatch::nn
