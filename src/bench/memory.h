#pragma once
// The memory section: what tensors one forward and backward pass needs beyond those it is given and
// those it returns. Buffers that a kernel keeps for itself are not among them;
// tests/test_memory.cpp holds the whole heap to a limit.

#include <vector>

#include "bench/candidates.h"
#include "bench/shapes.h"
#include "bench/timing.h"

namespace orthobatch::bench {

struct MemoryResult {
  Shape shape;
  Layout layout;
  Candidate candidate;
  int64_t extra_bytes;  ///< of tensors at the peak, beyond x, z and their gradients
};

std::vector<MemoryResult> measure_memory(const std::vector<Shape>& shapes,
                                         const std::vector<Layout>& layouts,
                                         const std::vector<Candidate>& candidates,
                                         const Session& session);

}  // namespace orthobatch::bench
