#pragma once
// What the tests of folded layers share.

#include "rooms.h"
#include "support.h"

namespace orthobatch::test {

/// Parameters away from their initial values, which float holds exactly.
template <typename Module>
void randomize(Module& module, uint64_t seed) {
  module->to(torch::kDouble);
  randomize_parameters(module, seed);
  module->to(torch::kFloat);
}

inline torch::nn::Conv2d conv2d(const torch::nn::Conv2dOptions& options) {
  return torch::nn::Conv2d(options);
}

/// Batches of a step in training that were not folded.
inline int64_t unfolded(const char* spec, const torch::nn::Conv2dOptions& options,
                        const torch::Tensor& x) {
  BatchOrtho2d norm(x.size(1), spec);
  FoldedConv2d folded(norm, conv2d(options));
  folded->to(x.scalar_type());
  folded(x);
  return norm->last_batch().unfolded;
}

}  // namespace orthobatch::test
