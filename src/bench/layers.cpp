#include "bench/layers.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/cayley.h"
#include "core/layer.h"
#include "core/linalg.h"
#include "kernels/passes.h"

#ifndef _OPENMP
#error "at::parallel_for runs on one thread in code compiled without OpenMP"
#endif

namespace orthobatch::bench {
namespace {

using namespace std::chrono_literals;

/// at::set_num_threads would make a new pool of another library's threads each time, and those spin
/// on a core for a while.
void use_threads(int count) { omp_set_num_threads(count); }

/// Samples (M×N, row-major) times an N×N matrix, in tiles of about 128 KiB that stay in a core's
/// cache: the rate the machine's products over the data can have.
class TiledProduct {
 public:
  explicit TiledProduct(const Shape& shape)
      : n_(shape.channels),
        m_(shape.samples()),
        tile_(std::clamp<int64_t>((128 << 10) / (4 * n_), 16, 2048)),
        samples_(torch::rand({m_, n_})),
        matrix_(torch::rand({n_, n_})),
        out_(torch::empty({m_, n_})) {}

  void run() const {
    using core::linalg::gemm;
    using core::linalg::Op;
    const float* samples = samples_.data_ptr<float>();
    const float* matrix = matrix_.data_ptr<float>();
    float* out = out_.data_ptr<float>();
    at::parallel_for(0, (m_ + tile_ - 1) / tile_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t first = t * tile_, rows = std::min(tile_, m_ - first);
        gemm(Op::none, Op::none, rows, n_, n_, 1.0F, samples + first * n_, n_, matrix, n_, 0.0F,
             out + first * n_, n_);
      }
    });
  }

 private:
  int64_t n_, m_, tile_;
  torch::Tensor samples_, matrix_, out_;
};

/// What a layer does between its passes, on statistics of its own input.
class Algebra {
 public:
  Algebra(const LayerSpec& spec, const torch::Tensor& x)
      : algebra_(spec, x.size(1)),
        parameters_{core::Vector(x.size(1), 1.0), core::Vector(x.size(1)),
                    core::Vector(spec.has_rotation() ? core::skew_size(x.size(1)) : 0)},
        statistics_(kernels::passes_for(x).moments(x.detach(), algebra_.block())),
        sums_(kernels::passes_for(x).products(x.detach(), x.detach(), statistics_.mean,
                                              algebra_.product_block(), core::Sums::in_type)) {
    if (!spec.has_scale()) parameters_.gamma.clear();
  }

  void run() const {
    const core::Fold fold = algebra_.fold(statistics_, parameters_, core::Real::float32);
    algebra_.pullback(fold, parameters_, sums_, {});
  }

 private:
  core::LayerAlgebra algebra_;
  core::LayerParameters parameters_;
  core::Statistics statistics_;
  core::GradientSums sums_;
};

}  // namespace

const LayerTimes* LayerResult::find(Candidate::Kind kind) const {
  for (const LayerTimes& row : rows)
    if (row.candidate.kind == kind) return &row;
  return nullptr;
}

const LayerTimes* LayerResult::find(const LayerSpec& spec) const {
  for (const LayerTimes& row : rows)
    if (row.candidate.spec && *row.candidate.spec == spec) return &row;
  return nullptr;
}

double LayerResult::product_gflops() const {
  const auto n = static_cast<double>(shape.channels), m = static_cast<double>(shape.samples());
  return 2e-6 * n * n * m / product.median();
}

AgainstProduct against_product(double milliseconds, double product_milliseconds) {
  const double limit = layer_products * product_milliseconds;
  return {milliseconds / limit, limit / milliseconds};
}

LayerResult measure_layers(const Shape& shape, Layout layout,
                           const std::vector<Candidate>& candidates, const Session& session) {
  torch::Tensor x = layer_input(shape, layout).requires_grad_();
  const torch::Tensor gradient = layer_gradient(shape, layout);
  const TiledProduct product(shape);
  LayerResult result{shape, layout, {}, {}};
  std::vector<Layer> layers;
  std::vector<std::unique_ptr<Algebra>> algebras;
  for (const Candidate& candidate : candidates) {
    result.rows.push_back({candidate, {}, {}, {}});
    algebras.push_back(candidate.spec ? std::make_unique<Algebra>(*candidate.spec, x) : nullptr);
    layers.push_back(make_layer(candidate, shape.channels));
  }

  std::vector<std::function<void(bool)>> work;
  work.emplace_back([&](bool counted) {
    use_threads(session.threads);
    // The threads are awake before anything is timed on them.
    for (const double until = now() + 0.01; now() < until;) product.run();
    const double start = now();
    product.run();
    if (counted) result.product.each.push_back(1e3 * (now() - start));
  });
  for (size_t i = 0; i < layers.size(); ++i)
    work.emplace_back([&, i](bool counted) {
      run_pass(layers[i], x, gradient, counted ? &result.rows[i].all : nullptr);
      // torch's products wake OpenBLAS's own threads, which hold a core for a while after.
      if (candidates[i].kind == Candidate::Kind::composed) std::this_thread::sleep_for(50ms);
      if (!algebras[i]) return;
      const double start = now();
      algebras[i]->run();
      if (counted) result.rows[i].algebra.each.push_back(1e3 * (now() - start));
    });
  for (size_t i = 0; i < layers.size(); ++i) {
    // torch's products run on OpenBLAS, whose own thread count torch does not set.
    if (session.threads == 1 || candidates[i].kind == Candidate::Kind::composed) continue;
    work.emplace_back([&, i](bool counted) {
      use_threads(1);
      run_pass(layers[i], x, gradient, counted ? &result.rows[i].one : nullptr);
    });
  }
  interleave(work, session, session.repeats, /*warm_up=*/true,
             to_string(shape) + " " + name_of(layout));
  use_threads(session.threads);
  return result;
}

}  // namespace orthobatch::bench
