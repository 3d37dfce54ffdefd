#include "bench/memory.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "bench/tensor_memory.h"

namespace orthobatch::bench {
namespace {

/// Autograd's own state exists after this; none of our layers has run.
void warm_up_torch() {
  const Shape shape{64, 16, 16, 16};
  torch::Tensor x = layer_input(shape, Layout::channels_last).requires_grad_();
  run_pass(make_layer({Candidate::Kind::torch_bn, {}}, shape.channels), x,
           layer_gradient(shape, Layout::channels_last), nullptr);
}

int64_t extra_bytes(const Candidate& candidate, const Shape& shape, torch::Tensor& x,
                    const torch::Tensor& gradient, TensorMemory& memory) {
  const Layer layer = make_layer(candidate, shape.channels);
  const int64_t given = memory.in_use();
  memory.reset_peak();
  run_pass(layer, x, gradient, nullptr);
  const int64_t returned = 2 * 4 * shape.values();  // z and ∇x, floats
  return std::max<int64_t>(0, memory.peak() - given - returned);
}

}  // namespace

std::vector<MemoryResult> measure_memory(const std::vector<Shape>& shapes,
                                         const std::vector<Layout>& layouts,
                                         const std::vector<Candidate>& candidates,
                                         const Session& session) {
  std::vector<MemoryResult> out;
  at::set_num_threads(session.threads);
  warm_up_torch();
  TensorMemory memory;
  int64_t done = 0;
  for (const Shape& shape : shapes) {
    session.progress("memory at " + to_string(shape), done++, static_cast<int64_t>(shapes.size()));
    for (const Layout layout : layouts) {
      torch::Tensor x = layer_input(shape, layout).requires_grad_();
      const torch::Tensor gradient = layer_gradient(shape, layout);
      for (const Candidate& candidate : candidates) {
        session.check();
        out.push_back(
            {shape, layout, candidate, extra_bytes(candidate, shape, x, gradient, memory)});
      }
    }
  }
  return out;
}

}  // namespace orthobatch::bench
