#include "bench/sections.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "core/cayley.h"
#include "core/layer.h"
#include "core/linalg.h"
#include "kernels/passes.h"

namespace orthobatch::bench {
namespace {

/// Multiply-adds of a whitening layer's products over the samples, in units of N²M: covariance ½,
/// transform 1, B 1, ∇X 2.
constexpr double layer_products = 4.5;

/// Samples (M×N, row-major) times an N×N matrix, in tiles of about 128 KiB that stay in a core's
/// cache: the rate that products over the data can have on this machine.
Contestant gemm_contestant(const Shape& shape) {
  const int64_t n = shape.channels, m = shape.samples(),
                tile = std::clamp<int64_t>((128 << 10) / (4 * n), 16, 2048);
  const torch::Tensor samples = torch::rand({m, n}), matrix = torch::rand({n, n}),
                      out = torch::empty({m, n});
  const auto product = [=] {
    using core::linalg::Op;
    at::parallel_for(0, (m + tile - 1) / tile, 1, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin * tile; first < std::min(m, end * tile); first += tile)
        core::linalg::gemm(Op::none, Op::none, std::min(tile, m - first), n, n, 1.0F,
                           samples.data_ptr<float>() + first * n, n, matrix.data_ptr<float>(), n,
                           0.0F, out.data_ptr<float>() + first * n, n);
    });
  };
  return {gemm_row, [product] {
            // The threads are awake before anything is timed on them.
            for (double spent = 0; spent < 10;) spent += milliseconds(product);
            return Sample{{total_part, layer_products * milliseconds(product)}};
          }};
}

/// What a layer does between its passes, on statistics of its own input.
std::function<void()> algebra_of(const LayerSpec& spec, const torch::Tensor& x) {
  const int64_t n = x.size(1);
  const auto algebra = std::make_shared<core::LayerAlgebra>(spec, n);
  const core::LayerParameters parameters{
      core::Vector(spec.has_scale() ? n : 0, 1.0), core::Vector(n),
      core::Vector(spec.has_rotation() ? core::skew_size(n) : 0)};
  const kernels::Passes& passes = kernels::passes_for(x);
  const core::Statistics statistics = passes.moments(x.detach(), algebra->block());
  const core::GradientSums sums = passes.products(x.detach(), x.detach(), statistics.mean,
                                                  algebra->product_block(), core::Sums::in_type);
  return [=] {
    const core::LayerMap map = algebra->map(statistics, parameters, core::Real::float32);
    algebra->pullback(map, map.affine, sums, {});
  };
}

std::function<Sample()> pass_of(const Candidate& candidate, const torch::Tensor& x,
                                const torch::Tensor& gradient) {
  return [layer = make_layer(candidate, x.size(1)), x, gradient] {
    return run_pass(layer, x, gradient);
  };
}

}  // namespace

Table measure_layers(const Shape& shape, Layout layout, const std::vector<Candidate>& candidates,
                     const Session& session) {
  const torch::Tensor x = layer_input(shape, layout).requires_grad_(),
                      gradient = layer_gradient(shape, layout);
  Table table{"layers", to_string(shape) + " " + name_of(layout)};
  std::vector<Contestant> contestants = {gemm_contestant(shape)}, on_one_thread;
  const auto output_and_input_gradient = static_cast<int64_t>(2 * x.nbytes());
  for (const Candidate& candidate : candidates) {
    const bool composed = candidate.name == composed_row;
    const auto pass = pass_of(candidate, x, gradient);
    const auto algebra = candidate.spec ? algebra_of(*candidate.spec, x) : std::function<void()>();
    const auto pass_and_algebra = [pass, algebra, composed] {
      Sample sample = pass();
      if (algebra) sample.emplace_back(algebra_part, milliseconds(algebra));
      // torch's products wake OpenBLAS's own threads, which hold a core for a while after.
      if (composed) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return sample;
    };
    contestants.push_back(
        {candidate.name, pass_and_algebra, /*threads=*/0, output_and_input_gradient});
    // torch's products run on OpenBLAS, whose own thread count torch does not set.
    if (session.threads == 1 || composed) continue;
    const auto on_one = [pass] { return Sample{{one_thread_part, pass().front().second}}; };
    on_one_thread.push_back({candidate.name, on_one, /*threads=*/1});
  }
  contestants.insert(contestants.end(), on_one_thread.begin(), on_one_thread.end());
  run_in_turn(contestants, session, table);
  const auto n = static_cast<double>(shape.channels), m = static_cast<double>(shape.samples());
  table.figures["gemm_gflops"] = 2e-6 * layer_products * n * n * m / table.median(gemm_row);
  return table;
}

Table measure_scaling(const std::string& over, const std::vector<Shape>& shapes,
                      const Session& session) {
  const Candidate zca = candidates_of({"ZCA(1e-5)"}).back();
  Table table{"scaling", "ZCA over " + over};
  std::vector<Contestant> contestants;
  for (const Shape& shape : shapes) {
    const auto x = layer_input(shape, Layout::channels_last).requires_grad_();
    contestants.push_back(
        {to_string(shape), pass_of(zca, x, layer_gradient(shape, Layout::channels_last))});
  }
  run_in_turn(contestants, session, table);
  const auto size = [&](const Shape& s) {
    return static_cast<double>(over == "channels" ? s.channels : s.samples());
  };
  const auto time = [&](const Shape& s) { return table.median(to_string(s)); };
  table.figures["exponent"] = std::log(time(shapes.back()) / time(shapes.front())) /
                              std::log(size(shapes.back()) / size(shapes.front()));
  return table;
}

}  // namespace orthobatch::bench
