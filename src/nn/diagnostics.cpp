#include "orthobatch/diagnostics.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "core/entropy.h"
#include "core/linalg.h"
#include "kernels/convert.h"
#include "kernels/passes.h"
#include "orthobatch/tools.h"

namespace orthobatch {
namespace {

using core::Vector;
namespace linalg = core::linalg;
using kernels::to_matrix;
using kernels::to_tensor;
using kernels::to_vector;

void append_eigenvalues(Vector& all, const torch::Tensor& covariance) {
  TORCH_CHECK(at::isFloatingType(covariance.scalar_type()) && covariance.numel() > 0 &&
                  covariance.isfinite().all().item<bool>(),
              "expected a finite, non-empty covariance in a floating type, got size ",
              covariance.sizes(), " of type ", covariance.scalar_type());
  if (covariance.dim() == 3) {
    for (const torch::Tensor& block : covariance.unbind(0)) append_eigenvalues(all, block);
    return;
  }
  TORCH_CHECK(
      covariance.dim() == 1 || (covariance.dim() == 2 && covariance.size(0) == covariance.size(1)),
      "expected variances (C), a covariance (C×C) or blocks of one (groups, g, g), got size ",
      covariance.sizes());
  const Vector own =
      covariance.dim() == 1 ? to_vector(covariance) : linalg::eigh(to_matrix(covariance)).lambda;
  all.insert(all.end(), own.begin(), own.end());
}

/// Descending; what rounding alone makes is 0.
Vector spectrum(const torch::Tensor& covariance, const torch::Tensor& last) {
  Vector lambda;
  append_eigenvalues(lambda, covariance);
  if (last.defined() && last.numel() > 0) append_eigenvalues(lambda, last);
  std::sort(lambda.rbegin(), lambda.rend());
  const double noise = linalg::null_tolerance(static_cast<int64_t>(lambda.size())) * lambda.front();
  for (double& l : lambda) l = l <= noise ? 0.0 : l;
  return lambda;
}

}  // namespace

torch::Tensor covariance(const torch::Tensor& x) {
  TORCH_CHECK(x.dim() >= 2 && x.numel() > 0 &&
                  (x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kDouble),
              "expected a non-empty (N, C, …) tensor of float or double, got size ", x.sizes(),
              " of type ", x.scalar_type());
  if (x.requires_grad() && torch::GradMode::is_enabled()) {  // in operations that torch derives
    const torch::Tensor rows = x.movedim(1, -1).reshape({-1, x.size(1)}).to(torch::kDouble);
    const torch::Tensor centered = rows - rows.mean(0);
    return centered.t().mm(centered) / static_cast<double>(rows.size(0));
  }
  const torch::Tensor dense_x = kernels::dense_layout(x.detach());
  const kernels::Statistics m = kernels::passes_for(x).moments(dense_x, x.size(1));
  return to_tensor(m.covariance.dense());
}

torch::Tensor correlation_matrix(const torch::Tensor& x) {
  const torch::Tensor cov = covariance(x), variance = cov.diagonal();
  const torch::Tensor varies = variance > 0;
  const torch::Tensor safe = torch::where(varies, variance, torch::ones_like(variance));
  const torch::Tensor scale = torch::where(varies, safe.rsqrt(), torch::zeros_like(variance));
  return scale.unsqueeze(1) * cov * scale.unsqueeze(0);
}

double whiteness_error(const torch::Tensor& z) {
  const torch::Tensor cov = covariance(z.detach());
  return (cov - torch::eye(cov.size(0), torch::kDouble)).abs().max().item<double>();
}

double condition_number(const torch::Tensor& covariance, const torch::Tensor& last) {
  const Vector lambda = spectrum(covariance, last);
  return lambda.back() == 0 ? std::numeric_limits<double>::infinity()
                            : lambda.front() / lambda.back();
}

double effective_rank(const torch::Tensor& covariance, double q, const torch::Tensor& last) {
  TORCH_CHECK(q >= 0, "expected an order q ≥ 0, got ", q);
  return core::effective_rank(spectrum(covariance, last), q);
}

std::vector<LayerSummary> summary(const torch::nn::Module& net) {
  std::vector<LayerSummary> out;
  for (const auto& [name, layer] : layers_of(net)) {
    LayerSummary s;
    s.name = name;
    s.spec = to_string(layer->options.spec());
    s.num_features = layer->options.num_features();
    const BatchReport batch = layer->last_batch();
    if (batch.samples > 0) {
      s.samples = batch.samples;
      s.condition_number = condition_number(batch.covariance, batch.covariance_last);
      s.effective_rank = effective_rank(batch.covariance, 1, batch.covariance_last);
      s.floored = batch.floored;
      s.null = batch.null;
      s.empty = batch.empty;
      s.exchanges = batch.exchanges;
      s.unfolded = batch.unfolded;
    }
    out.push_back(s);
  }
  return out;
}

std::string to_string(const std::vector<LayerSummary>& layers) {
  size_t name_width = 5, spec_width = 4;
  for (const LayerSummary& s : layers) {
    name_width = std::max(name_width, s.name.size());
    spec_width = std::max(spec_width, s.spec.size());
  }
  const auto row = [&](const char* format, auto... values) {
    const int width = static_cast<int>(name_width);
    std::string line(std::snprintf(nullptr, 0, format, width, values...) + 1, '\0');
    std::snprintf(line.data(), line.size(), format, width, values...);
    line.pop_back();  // the end that snprintf puts
    return line;
  };
  std::string out =
      row("%-*s  %-*s  %8s  %10s  %8s  %7s  %5s  %9s  %8s\n", "layer", static_cast<int>(spec_width),
          "spec", "channels", "condition", "eff.rank", "floored", "empty", "exchanged", "unfolded");
  for (const LayerSummary& s : layers)
    out += row("%-*s  %-*s  %8lld  %10.3g  %8.2f  %7lld  %5lld  %9lld  %8lld\n", s.name.c_str(),
               static_cast<int>(spec_width), s.spec.c_str(), static_cast<long long>(s.num_features),
               s.condition_number, s.effective_rank, static_cast<long long>(s.floored),
               static_cast<long long>(s.null + s.empty), static_cast<long long>(s.exchanges),
               static_cast<long long>(s.unfolded));
  return out;
}

}  // namespace orthobatch
