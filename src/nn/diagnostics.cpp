#include "orthobatch/diagnostics.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "core/entropy.h"
#include "core/linalg.h"
#include "kernels/convert.h"
#include "kernels/passes.h"
#include "orthobatch/modules.h"

namespace orthobatch {
namespace {

using core::Vector;
namespace linalg = core::linalg;
using kernels::to_matrix;
using kernels::to_tensor;
using kernels::to_vector;

/// Eigenvalues of a covariance, descending; of variances, themselves.
Vector spectrum(const torch::Tensor& covariance) {
  TORCH_CHECK(
      covariance.dim() == 1 || (covariance.dim() == 2 && covariance.size(0) == covariance.size(1)),
      "expected variances (C) or a covariance (C×C), got size ", covariance.sizes());
  TORCH_CHECK(covariance.numel() > 0 && covariance.isfinite().all().item<bool>(),
              "expected a finite, non-empty covariance");
  if (covariance.dim() == 2) return linalg::eigh(to_matrix(covariance)).lambda;
  Vector variances = to_vector(covariance);
  std::sort(variances.rbegin(), variances.rend());
  return variances;
}

}  // namespace

torch::Tensor covariance(const torch::Tensor& x) {
  TORCH_CHECK(x.dim() >= 2 && x.numel() > 0, "expected a non-empty (N, C, …) tensor, got size ",
              x.sizes());
  const torch::Tensor dense_x = kernels::dense_layout(x.detach());
  const kernels::Statistics m = kernels::passes_for(x).moments(dense_x, x.size(1));
  return to_tensor(m.covariance.dense());
}

torch::Tensor correlation_matrix(const torch::Tensor& x) {
  const torch::Tensor cov = covariance(x), variance = cov.diagonal();
  const torch::Tensor scale =
      torch::where(variance > 0, variance.rsqrt(), torch::zeros_like(variance));
  return scale.unsqueeze(1) * cov * scale.unsqueeze(0);
}

double whiteness_error(const torch::Tensor& z) {
  const torch::Tensor cov = covariance(z);
  return (cov - torch::eye(cov.size(0), torch::kDouble)).abs().max().item<double>();
}

double condition_number(const torch::Tensor& covariance) {
  const Vector lambda = spectrum(covariance);
  const double noise = linalg::null_tolerance(static_cast<int64_t>(lambda.size())) * lambda.front();
  return lambda.back() <= noise ? std::numeric_limits<double>::infinity()
                                : lambda.front() / lambda.back();
}

double effective_rank(const torch::Tensor& covariance, double q) {
  TORCH_CHECK(q >= 0, "expected an order q ≥ 0, got ", q);
  Vector lambda = spectrum(covariance);
  const double noise = linalg::null_tolerance(static_cast<int64_t>(lambda.size())) * lambda.front();
  for (double& l : lambda) l = l <= noise ? 0.0 : l;
  return core::effective_rank(lambda, q);
}

std::vector<LayerSummary> summarize(const torch::nn::Module& net) {
  std::vector<LayerSummary> out;
  for (const auto& [name, layer] : layers_of(net)) {
    LayerSummary s;
    s.name = name;
    s.spec = to_string(layer->options.spec());
    s.channels = layer->options.channels();
    const BatchReport& batch = layer->last_batch();
    if (batch.samples > 0) {
      s.samples = batch.samples;
      s.condition_number = condition_number(batch.covariance);
      s.effective_rank = effective_rank(batch.covariance);
      s.floored = batch.floored;
      s.null = batch.null;
      s.exchanges = batch.exchanges;
      s.unfolded = batch.unfolded;
    }
    out.push_back(s);
  }
  return out;
}

std::string to_string(const std::vector<LayerSummary>& summary) {
  size_t name_width = 5, spec_width = 4;
  for (const LayerSummary& s : summary) {
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
      row("%-*s  %-*s  %8s  %10s  %8s  %7s  %4s  %9s  %8s\n", "layer", static_cast<int>(spec_width),
          "spec", "channels", "condition", "eff.rank", "floored", "null", "exchanged", "unfolded");
  for (const LayerSummary& s : summary)
    out += row("%-*s  %-*s  %8lld  %10.3g  %8.2f  %7lld  %4lld  %9lld  %8lld\n", s.name.c_str(),
               static_cast<int>(spec_width), s.spec.c_str(), static_cast<long long>(s.channels),
               s.condition_number, s.effective_rank, static_cast<long long>(s.floored),
               static_cast<long long>(s.null), static_cast<long long>(s.exchanges),
               static_cast<long long>(s.unfolded));
  return out;
}

}  // namespace orthobatch
