#pragma once
// Groups of processes, by the number that stands for them in a layer's text, and what layers exchange
// in them: one collective each.

#include <functional>

#include "core/statistics.h"
#include "ops/layer.h"
#include "orthobatch/process_group.h"

namespace orthobatch::ops {

/// Throws where the group is gone.
std::shared_ptr<Collectives> group_of(const KnownLayer& layer);

/// Of the samples of all processes, merged in their order: the same bits on every one. Those without
/// samples (0, zeros) count for nothing; `samples` is 0 where none has any.
core::Statistics merge_processes(Collectives& group, const core::Statistics& own);

/// The sums over the samples of all processes: begun, and there when what it returns is called.
std::function<core::GradientSums()> sum_over_processes(const std::shared_ptr<Collectives>& group,
                                                       const core::GradientSums& own);

/// A group whose collectives are functions of another language, over arrays of doubles: `gather` has
/// `all` filled with those of all processes, `sum` adds them up in place. Each returns null, or what
/// went wrong. Kept until it is removed. No operators: an address cannot be checked.
using GatherFunction = const char* (*)(const double* own, int64_t count, double* all);
using SumFunction = const char* (*)(double* values, int64_t count);
extern "C" ORTHOBATCH_API int64_t orthobatch_add_group(int64_t rank, int64_t size,
                                                       GatherFunction gather, SumFunction sum);
extern "C" ORTHOBATCH_API void orthobatch_remove_group(int64_t number);

}  // namespace orthobatch::ops
