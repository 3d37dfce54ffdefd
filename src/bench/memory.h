#pragma once
// The memory section: what one forward and backward pass needs beyond the tensors it is given and
// the ones it returns.

#include <vector>

#include "bench/candidates.h"
#include "bench/shapes.h"
#include "bench/timing.h"

namespace orthobatch::bench {

struct MemoryResult {
  Shape shape;
  Layout layout;
  Candidate candidate;
  int64_t extra_bytes;  ///< at the peak, beyond x, z and their gradients
};

/// Empty where the heap cannot be counted. What a library keeps from one call for the next is part
/// of `extra_bytes`, of every later call too: shapes go from few channels to many, so that this
/// overstates little.
std::vector<MemoryResult> measure_memory(std::vector<Shape> shapes,
                                         const std::vector<Layout>& layouts,
                                         const std::vector<Candidate>& candidates,
                                         const Session& session);

}  // namespace orthobatch::bench
