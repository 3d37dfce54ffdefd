#include "check/gradient_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "check/differences.h"
#include "core/layer.h"
#include "kernels/convert.h"
#include "kernels/passes.h"
#include "ops/torch_versions.h"
#include "orthobatch/modules.h"

namespace orthobatch::check {
namespace {

using core::LayerMap;
using core::Vector;
using kernels::to_vector;

torch::Tensor random_normal(at::IntArrayRef shape, at::Generator& generator) {
  return at::randn(shape, generator, at::TensorOptions(at::kDouble));
}

torch::Tensor eigenvalues(const CheckOptions& o) {
  if (o.spectrum == Spectrum::equal) return torch::ones({o.channels}, torch::kDouble);
  torch::Tensor lambda =
      torch::logspace(std::log10(4.0), std::log10(0.05), o.channels, 10.0, torch::kDouble);
  if (o.spectrum == Spectrum::close)
    for (int64_t k = 0; k + 1 < o.channels; k += 2) lambda[k + 1] = lambda[k] - o.gap;
  return lambda;
}

/// A layer, an input and a loss ⟨G, Z⟩.
struct Problem {
  torch::Tensor x, gamma, bias, skew;  // undefined where the layer has none
  torch::Tensor G;
};

Problem make_problem(const LayerSpec& spec, const CheckOptions& o) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(o.seed + 1000);
  Problem p;
  p.x = data_with_spectrum(o);
  const int64_t n = o.channels;
  const auto start = [&](bool present, torch::Tensor initial, double spread) {
    if (!present) return torch::Tensor();
    return o.at_start ? initial : initial + spread * random_normal(initial.sizes(), generator);
  };
  p.gamma = start(spec.has_scale(), torch::ones({n}, torch::kDouble), 0.3);
  p.bias = start(true, torch::zeros({n}, torch::kDouble), 1.0);
  p.skew = start(spec.has_rotation(), torch::zeros({n * (n - 1) / 2}, torch::kDouble), 0.3);
  p.G = random_normal({o.samples, n}, generator);
  return p;
}

BatchOrtho1d make_layer(const LayerSpec& spec, const Problem& p) {
  BatchOrtho1d layer(BatchOrthoOptions(p.x.size(1), spec).track_running_stats(false));
  layer->to(torch::kDouble);
  torch::NoGradGuard no_grad;
  for (auto [own, value] :
       {std::pair{layer->weight, p.gamma}, {layer->bias, p.bias}, {layer->skew, p.skew}})
    if (own.defined()) own.copy_(value);
  return layer;
}

/// The factors of the problem's own covariance, for what they say of smoothness.
LayerMap map_of(const LayerSpec& spec, const Problem& p, const torch::Tensor& x) {
  const core::LayerAlgebra algebra(spec, x.size(1));
  return algebra.map(kernels::passes_for(x).moments(x, algebra.block()),
                     {to_vector(p.gamma), to_vector(p.bias), to_vector(p.skew)},
                     core::Real::float64);
}

std::vector<int64_t> branch_of(const LayerMap& map) {
  std::vector<int64_t> out;
  for (const auto& f : map.factors) {
    const std::vector<int64_t> part = f->branch();
    out.insert(out.end(), part.begin(), part.end());
    out.push_back(f->null);
  }
  return out;
}

std::vector<std::string> obstacles(const LayerMap& map, int64_t samples) {
  std::vector<std::string> out;
  for (const auto& f : map.factors) {
    for (const std::string& kink : f->kinks()) out.push_back(kink);
    const int64_t width = f->T.rows(), rank = width - f->null;
    if (f->null > 0 && rank < std::min(width, samples - 1))
      out.push_back(std::to_string(f->null) +
                    " direction(s) without variance, which other data would have");
  }
  return out;
}

struct Gradients {
  torch::Tensor x, gamma, bias, skew;
};

Gradients backward(const LayerSpec& spec, const Problem& p) {
  BatchOrtho1d layer = make_layer(spec, p);
  torch::Tensor x = p.x.clone().requires_grad_();
  (layer->forward(x) * p.G).sum().backward();
  const auto grad = [](const torch::Tensor& t) { return t.defined() ? t.grad() : torch::Tensor(); };
  return {x.grad(), grad(layer->weight), grad(layer->bias), grad(layer->skew)};
}

/// The paper's; undefined tensors where it prints none for this layer.
Gradients printed_gradients(const LayerSpec& spec, const Problem& p) {
  try {
    return backward(spec.with_gradient(Gradient::paper), p);
  } catch (const SpecError&) {
    return {};
  }
}

bool is_finite(const torch::Tensor& t) { return t.isfinite().all().item<bool>(); }

/// A layer's gradients, one after the other, against differences of the same layer.
class Check {
 public:
  Check(const LayerSpec& given, const CheckOptions& options)
      : judges_printed_(given.gradient() == Gradient::paper),
        spec_(given.with_gradient(Gradient::exact)),
        options_(options),
        problem_(make_problem(spec_, options)),
        exact_(backward(spec_, problem_)),
        printed_(printed_gradients(spec_, problem_)),
        layer_(make_layer(spec_, problem_)),
        generator_(at::make_generator<at::CPUGeneratorImpl>(options.seed + 2000)),
        least_(1e-3 * problem_.G.norm().item<double>()) {}

  CheckResult run() {
    check_input();
    check_parameter("gamma", layer_->weight, problem_.gamma, exact_.gamma, printed_.gamma);
    check_parameter("b", layer_->bias, problem_.bias, exact_.bias, printed_.bias);
    check_parameter("S", layer_->skew, problem_.skew, exact_.skew, printed_.skew);
    return result_;
  }

 private:
  void check_input() {
    const LayerMap map = map_of(spec_, problem_, problem_.x);
    result_.why_no_gradient = obstacles(map, options_.samples);
    if (!result_.why_no_gradient.empty()) {
      CheckRow row;
      row.of = "x";
      row.verdict = is_finite(exact_.x) ? Verdict::no_gradient : Verdict::off;
      result_.rows.push_back(row);
      return;
    }
    const std::vector<int64_t> branch = branch_of(map);
    compare("x", problem_.x, exact_.x, printed_.x, [&](const torch::Tensor& x) {
      const bool same_branch = branch_of(map_of(spec_, problem_, x)) == branch;
      return same_branch ? std::optional<double>(loss_at(x)) : std::nullopt;
    });
  }

  /// `own` is the layer's parameter, `value` where the problem has it; a layer may have none.
  void check_parameter(const char* of, torch::Tensor& own, const torch::Tensor& value,
                       const torch::Tensor& exact, const torch::Tensor& printed) {
    if (!value.defined() || value.numel() == 0) return;
    const torch::NoGradGuard no_grad;
    compare(of, value, exact, printed, [&](const torch::Tensor& moved) {
      own.copy_(moved);
      return std::optional<double>(loss_at(problem_.x));
    });
    own.copy_(value);
  }

  double loss_at(const torch::Tensor& x) {
    if (options_.stop && options_.stop()) throw std::runtime_error("the check was stopped");
    const torch::NoGradGuard no_grad;
    return (layer_->forward(x) * problem_.G).sum().item<double>();
  }

  /// Adds the row of one tensor; `f` is the loss as a function of it.
  void compare(const char* of, const torch::Tensor& at, const torch::Tensor& exact,
               const torch::Tensor& printed, const Evaluate& f) {
    const std::vector<torch::Tensor> along = directions(at, options_.directions, generator_);
    const Differences fd = central_differences(at, along, f, least_);
    const bool finite = is_finite(exact);
    CheckRow row;
    row.of = of;
    row.resolution = fd.resolution;
    if (fd.values.empty()) {
      row.verdict = finite ? Verdict::unresolved : Verdict::off;
    } else {
      row.exact_error = finite ? distance(project(exact, along), fd.values, least_)
                               : std::numeric_limits<double>::infinity();
      if (printed.defined()) row.paper_error = distance(project(printed, along), fd.values, least_);
      const double judged =
          judges_printed_ ? row.paper_error.value_or(row.exact_error) : row.exact_error;
      row.verdict = judge(judged, fd.resolution, options_.tolerance);
    }
    result_.rows.push_back(row);
  }

  const bool judges_printed_;
  const LayerSpec spec_;
  const CheckOptions options_;
  const Problem problem_;
  const Gradients exact_, printed_;
  BatchOrtho1d layer_;
  at::Generator generator_;
  // A gradient can be zero (two samples, whitened, do not move): then what is left is rounding, and
  // it is measured against the gradient that arrives.
  const double least_;
  CheckResult result_;
};

}  // namespace

torch::Tensor data_with_spectrum(const CheckOptions& o) {
  TORCH_CHECK(o.channels >= 1 && o.samples >= 2, "expected at least 1 channel and 2 samples, got ",
              o.channels, " and ", o.samples);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(o.seed);
  const int64_t rank = std::min(o.channels, o.samples - 1);
  torch::Tensor Q = random_normal({o.samples, rank}, generator);
  Q = std::get<0>(torch::linalg_qr(Q - Q.mean(0, true)));  // orthonormal, still centred
  Q = Q - Q.mean(0, true);
  const torch::Tensor U =
      std::get<0>(torch::linalg_qr(random_normal({o.channels, o.channels}, generator)));
  const torch::Tensor scale = (eigenvalues(o).slice(0, 0, rank) * o.samples).sqrt();
  torch::Tensor x = torch::mm(Q * scale, U.slice(1, 0, rank).t());
  if (o.spectrum == Spectrum::deficient && o.channels > 1)
    x.select(1, o.channels - 1).copy_(x.select(1, 0));
  return x + 1.0;
}

Verdict judge(double error, double resolution, double tolerance) {
  if (error <= tolerance) return Verdict::ok;
  // Beyond doubt: far outside what the differences leave open.
  if (!std::isfinite(error) || error > 10 * resolution) return Verdict::off;
  return Verdict::unresolved;
}

bool CheckResult::any(Verdict verdict) const {
  for (const CheckRow& row : rows)
    if (row.verdict == verdict) return true;
  return false;
}

double CheckResult::largest_exact_error() const {
  double out = 0;
  for (const CheckRow& row : rows) out = std::max(out, row.exact_error);
  return out;
}

double CheckResult::largest_paper_error() const {
  double out = 0;
  for (const CheckRow& row : rows) out = std::max(out, row.paper_error.value_or(0));
  return out;
}

CheckResult check_gradient(const LayerSpec& given, const CheckOptions& options) {
  // Layers warn of null directions; here they are part of the result.
  struct Silence : WarningHandler {
    void take(const std::string&) override {}
  } silence;
  const WarningGuard guard(&silence);
  return Check(given, options).run();
}

}  // namespace orthobatch::check
