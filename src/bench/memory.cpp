#include "bench/memory.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "bench/heap.h"

namespace orthobatch::bench {
namespace {

struct Counting {
  Counting() { heap::start(); }
  ~Counting() { heap::stop(); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
};

/// Threads and autograd's own state exist after this; none of our layers has run.
void warm_up_torch() {
  const Shape shape{64, 16, 16, 16};
  torch::Tensor x = layer_input(shape, Layout::channels_last).requires_grad_();
  run_pass(make_layer({Candidate::Kind::torch_bn, {}}, shape.channels), x,
           layer_gradient(shape, Layout::channels_last), nullptr);
}

/// x and the gradient that comes back, with the bytes they take.
struct Data {
  Data(const Shape& shape, Layout layout) {
    const int64_t before = heap::in_use();
    x = layer_input(shape, layout).requires_grad_();
    gradient = layer_gradient(shape, layout);
    bytes = heap::in_use() - before;
  }

  torch::Tensor x, gradient;
  int64_t bytes = 0;
};

int64_t extra_bytes(const Candidate& candidate, const Shape& shape, Data& data) {
  const int64_t kept = heap::in_use() - data.bytes;  // by libraries, since counting began
  const Layer layer = make_layer(candidate, shape.channels);
  const int64_t given = heap::in_use();
  heap::reset_peak();
  run_pass(layer, data.x, data.gradient, nullptr);
  const int64_t returned = 2 * 4 * shape.values();  // z and ∇x, floats
  return std::max<int64_t>(0, heap::peak() - given + kept - returned);
}

}  // namespace

std::vector<MemoryResult> measure_memory(std::vector<Shape> shapes,
                                         const std::vector<Layout>& layouts,
                                         const std::vector<Candidate>& candidates,
                                         const Session& session) {
  std::vector<MemoryResult> out;
  if (!heap::can_count()) return out;
  std::stable_sort(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) {
    return std::make_pair(a.channels, a.values()) < std::make_pair(b.channels, b.values());
  });
  // Room for all of it now: the list is no part of what is counted.
  out.reserve(shapes.size() * layouts.size() * candidates.size());
  at::set_num_threads(session.threads);
  warm_up_torch();
  const Counting counting;
  int64_t done = 0;
  for (const Shape& shape : shapes) {
    session.progress("memory at " + to_string(shape), done++, static_cast<int64_t>(shapes.size()));
    for (const Layout layout : layouts) {
      Data data(shape, layout);
      for (const Candidate& candidate : candidates) {
        session.check();
        out.push_back({shape, layout, candidate, extra_bytes(candidate, shape, data)});
      }
    }
  }
  return out;
}

}  // namespace orthobatch::bench
