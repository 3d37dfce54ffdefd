// The four passes over the data alone, on all cores: build/release/bench_kernels
//
//   --benchmark_filter=^transform/.*channels_last  a part of them
//   --benchmark_filter=^aten                       those for any device, on the CPU
//   --benchmark_format=json                        for programs
//
// GFLOP counts two for a multiply-add and half of the symmetric covariance; GB counts each tensor
// that is read or written once. Both are shown per second.

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "bench/shapes.h"
#include "cli/memory.h"
#include "kernels/passes.h"

namespace orthobatch::bench {
namespace {

struct Inputs {
  Inputs(const Shape& shape, Layout layout, int64_t block)
      : x(layer_input(shape, layout)), gradient(layer_gradient(shape, layout)), block(block) {
    const int64_t n = shape.channels;
    core::BlockMatrix P(n, block), Q(n, block);
    for (size_t i = 0; i < P.values().size(); ++i) {
      P.values()[i] = 1.0 / static_cast<double>(1 + i % 7);
      Q.values()[i] = 1.0 / static_cast<double>(1 + i % 5);
    }
    forward = {P, core::Vector(n, 0.25), core::Vector(n, 0.5), core::Sums::in_type};
    backward = {P, Q, forward.center, forward.offset, core::Sums::in_type, 1.0};
  }

  at::Tensor x, gradient;
  int64_t block;
  core::AffineMap forward;
  core::GradientMap backward;
};

struct Pass {
  const char* name;
  double products;  // multiply-adds in units of N·block·M
  double tensors;   // read or written
  std::function<void(const kernels::Passes&, const Inputs&)> run;
};

const std::vector<Pass>& passes() {
  static const std::vector<Pass> all = {
      {"moments", 0.5, 1,
       [](const kernels::Passes& k, const Inputs& in) {
         benchmark::DoNotOptimize(k.moments(in.x, in.block));
       }},
      {"transform", 1, 2,
       [](const kernels::Passes& k, const Inputs& in) {
         benchmark::DoNotOptimize(k.transform(in.x, in.forward));
       }},
      {"products", 1, 2,
       [](const kernels::Passes& k, const Inputs& in) {
         benchmark::DoNotOptimize(
             k.products(in.gradient, in.x, in.forward.center, in.block, core::Sums::in_type));
       }},
      {"input_gradient", 2, 3,
       [](const kernels::Passes& k, const Inputs& in) {
         benchmark::DoNotOptimize(k.input_gradient(in.gradient, in.x, in.backward));
       }},
  };
  return all;
}

void measure(benchmark::State& state, const kernels::Passes& kernels, const Pass& pass,
             const Shape& shape, Layout layout, bool dense) {
  const int64_t block = dense ? shape.channels : 1;
  const Inputs inputs(shape, layout, block);
  for (auto _ : state) pass.run(kernels, inputs);
  const auto values = static_cast<double>(shape.values());
  const auto rate = [](double per_iteration) {
    return benchmark::Counter(1e-9 * per_iteration, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["GFLOP"] = rate(2 * pass.products * values * static_cast<double>(block));
  state.counters["GB"] = rate(4 * pass.tensors * values);
}

void register_all(const std::string& prefix, const kernels::Passes& kernels) {
  for (const Pass& pass : passes())
    for (const bool dense : {true, false})
      for (const Layout layout : {Layout::channels_last, Layout::nchw})
        for (const Shape& shape : standard_shapes()) {
          const std::string name = prefix + pass.name + (dense ? "/dense/" : "/per_channel/") +
                                   name_of(layout) + "/" + to_string(shape);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [&, dense, layout, shape](benchmark::State& state) {
                                         measure(state, kernels, pass, shape, layout, dense);
                                       })
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond);
        }
}

}  // namespace
}  // namespace orthobatch::bench

int main(int argc, char** argv) {
  orthobatch::cli::keep_freed_memory();
  at::set_num_threads(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  orthobatch::bench::register_all("", orthobatch::kernels::cpu_passes());
  orthobatch::bench::register_all("aten/", orthobatch::kernels::aten_passes());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
