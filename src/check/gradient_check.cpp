#include "check/gradient_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/layer.h"
#include "kernels/convert.h"
#include "kernels/passes.h"
#include "nn/warnings.h"
#include "orthobatch/modules.h"

namespace orthobatch {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

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

double loss(BatchOrtho1d& layer, const torch::Tensor& x, const torch::Tensor& G) {
  torch::NoGradGuard no_grad;
  return (layer->forward(x) * G).sum().item<double>();
}

/// The factors of the problem's own covariance, for what they say of smoothness.
Fold fold_of(const LayerSpec& spec, const Problem& p, const torch::Tensor& x) {
  const LayerAlgebra algebra(spec, x.size(1));
  const kernels::Moments m = kernels::passes_for(x).moments(x, algebra.block());
  return algebra.fold(m.mean, m.covariance,
                      {to_vector(p.gamma), to_vector(p.bias), to_vector(p.skew)});
}

std::vector<int64_t> branch_of(const Fold& fold) {
  std::vector<int64_t> out;
  for (const auto& f : fold.factors) {
    const std::vector<int64_t> part = f->branch();
    out.insert(out.end(), part.begin(), part.end());
    out.push_back(f->null);
  }
  return out;
}

std::vector<std::string> obstacles(const Fold& fold, int64_t samples) {
  std::vector<std::string> out;
  for (const auto& f : fold.factors) {
    for (const std::string& kink : f->kinks()) out.push_back(kink);
    const int64_t width = f->T.rows(), rank = width - f->null;
    if (f->null > 0 && rank < std::min(width, samples - 1))
      out.push_back(std::to_string(f->null) +
                    " null direction(s) that a change of the data would fill");
  }
  return out;
}

/// Unit directions in which a tensor is moved: its entries, or random ones where it has many.
std::vector<torch::Tensor> directions(const torch::Tensor& t, int64_t limit,
                                      at::Generator& generator) {
  constexpr int64_t random_directions = 32;
  const int64_t count = t.numel() <= limit ? t.numel() : std::min(limit, random_directions);
  std::vector<torch::Tensor> out;
  for (int64_t k = 0; k < count; ++k) {
    torch::Tensor d = torch::zeros_like(t);
    if (t.numel() <= limit)
      d.view(-1)[k] = 1.0;
    else
      d = random_normal(t.sizes(), generator);
    out.push_back(d / d.norm());
  }
  return out;
}

double norm(const Vector& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

/// ‖a − b‖ / ‖b‖, or over `least` where b is smaller than that.
double distance(const Vector& a, const Vector& b, double least) {
  Vector d = a;
  for (size_t k = 0; k < d.size(); ++k) d[k] -= b[k];
  return norm(d) / std::max(norm(b), least);
}

/// f(displacement); nullopt where the displaced point lies on another branch.
using Evaluate = std::function<std::optional<double>(const torch::Tensor& displacement)>;

/// Central difference of order 2p: Σ_k w_k (f(kh) − f(−kh))/h, w_k = (−1)^(k+1) p!² / (k (p−k)!
/// (p+k)!)
std::optional<double> central_difference(const Evaluate& f, const torch::Tensor& along, double h) {
  constexpr int p = 6;
  double sum = 0, weight = -1;  // weight without the 1/k
  for (int k = 1; k <= p; ++k) {
    weight *= -static_cast<double>(p - k + 1) / (p + k);
    const std::optional<double> ahead = f(k * h * along), behind = f(-k * h * along);
    if (!ahead || !behind) return std::nullopt;
    sum += weight / k * (*ahead - *behind) / h;
  }
  return sum;
}

struct Differences {
  Vector values;  // directional derivatives; empty where they were not to be had
  double resolution = infinity;
};

/// At the step where neighbouring steps agree best over all directions: shorter ones drown in
/// rounding, longer ones in curvature.
Differences central_differences(const std::vector<torch::Tensor>& along, const Evaluate& f,
                                double least) {
  Differences best;
  Vector previous;
  for (double h = 2e-2; h > 1e-9; h /= 2.5) {
    Vector now;
    for (const torch::Tensor& d : along) {
      const std::optional<double> slope = central_difference(f, d, h);
      if (!slope) break;  // this direction leaves the branch: the step is too long
      now.push_back(*slope);
    }
    if (now.size() != along.size()) {
      previous.clear();
      continue;
    }
    if (!previous.empty()) {
      const double disagreement = distance(now, previous, least);
      if (disagreement < best.resolution)
        best = {previous, disagreement};
      else if (best.resolution < 1e-7 && disagreement > 1e2 * best.resolution)
        break;
    }
    previous = std::move(now);
  }
  return best;
}

Vector project(const torch::Tensor& gradient, const std::vector<torch::Tensor>& along) {
  Vector out;
  for (const torch::Tensor& d : along) out.push_back((gradient * d).sum().item<double>());
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

CheckResult check_gradient(const LayerSpec& given, const CheckOptions& o) {
  // Layers warn of null directions; here they are part of the result.
  struct Silence : WarningHandler {
    void take(const std::string&) override {}
  } silence;
  const WarningGuard guard(&silence);
  const LayerSpec spec = given.with_gradient(Gradient::exact);
  const Problem p = make_problem(spec, o);
  const Gradients exact = backward(spec, p);
  std::optional<Gradients> paper;
  try {
    paper = backward(spec.with_gradient(Gradient::paper), p);
  } catch (const SpecError&) {  // the paper prints none for this layer
  }

  CheckResult result;
  const Fold fold = fold_of(spec, p, p.x);
  const std::vector<int64_t> branch = branch_of(fold);
  result.why_no_gradient = obstacles(fold, o.samples);
  BatchOrtho1d layer = make_layer(spec, p);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(o.seed + 2000);
  // A gradient can be zero (two samples, whitened, do not move): then what is left is rounding, and
  // it is measured against the gradient that arrives.
  const double least = 1e-3 * p.G.norm().item<double>();

  const auto add = [&](const char* of, const torch::Tensor& at, const torch::Tensor& gradient,
                       const torch::Tensor& paper_gradient, bool smooth, const Evaluate& f) {
    CheckRow row;
    row.of = of;
    const bool finite = gradient.isfinite().all().item<bool>();
    if (!smooth) {
      row.verdict = finite ? Verdict::no_gradient : Verdict::off;
      result.rows.push_back(row);
      return;
    }
    const std::vector<torch::Tensor> along = directions(at, o.directions, generator);
    const Differences fd = central_differences(along, f, least);
    row.resolution = fd.resolution;
    if (fd.values.empty()) {
      row.verdict = finite ? Verdict::unresolved : Verdict::off;
    } else {
      row.exact_error = finite ? distance(project(gradient, along), fd.values, least) : infinity;
      if (paper_gradient.defined())
        row.paper_error = distance(project(paper_gradient, along), fd.values, least);
      const bool printed = given.gradient() == Gradient::paper && row.paper_error;
      row.verdict = judge(printed ? *row.paper_error : row.exact_error, fd.resolution, o.tolerance);
    }
    result.rows.push_back(row);
  };

  add("x", p.x, exact.x, paper ? paper->x : torch::Tensor(), result.why_no_gradient.empty(),
      [&](const torch::Tensor& d) -> std::optional<double> {
        const torch::Tensor x = p.x + d;
        if (branch_of(fold_of(spec, p, x)) != branch) return std::nullopt;
        return loss(layer, x, p.G);
      });
  const auto add_parameter = [&](const char* of, torch::Tensor& own, const torch::Tensor& value,
                                 const torch::Tensor& gradient, const torch::Tensor& printed) {
    if (!value.defined() || value.numel() == 0) return;
    add(of, value, gradient, printed, true, [&](const torch::Tensor& d) -> std::optional<double> {
      torch::NoGradGuard no_grad;
      own.copy_(value + d);
      const double out = loss(layer, p.x, p.G);
      own.copy_(value);
      return out;
    });
  };
  add_parameter("gamma", layer->weight, p.gamma, exact.gamma,
                paper ? paper->gamma : torch::Tensor());
  add_parameter("b", layer->bias, p.bias, exact.bias, paper ? paper->bias : torch::Tensor());
  add_parameter("S", layer->skew, p.skew, exact.skew, paper ? paper->skew : torch::Tensor());
  return result;
}

}  // namespace orthobatch
