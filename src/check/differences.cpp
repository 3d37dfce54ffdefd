#include "check/differences.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace orthobatch::check {
namespace {

double norm(const core::Vector& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

/// Central difference of order 2p: Σ_k w_k (f(kh) − f(−kh))/h, w_k = (−1)^(k+1) p!² / (k (p−k)!
/// (p+k)!)
std::optional<double> central_difference(const Evaluate& f, const torch::Tensor& at,
                                         const torch::Tensor& along, double h) {
  constexpr int p = 6;
  double sum = 0, weight = -1;  // weight without the 1/k
  for (int k = 1; k <= p; ++k) {
    weight *= -static_cast<double>(p - k + 1) / (p + k);
    const std::optional<double> ahead = f(at + k * h * along), behind = f(at - k * h * along);
    if (!ahead || !behind) return std::nullopt;
    sum += weight / k * (*ahead - *behind) / h;
  }
  return sum;
}

}  // namespace

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
      d = at::randn(t.sizes(), generator, t.options());
    out.push_back(d / d.norm());
  }
  return out;
}

Differences central_differences(const torch::Tensor& at, const std::vector<torch::Tensor>& along,
                                const Evaluate& f, double least) {
  Differences best;
  core::Vector previous;
  for (double h = 2e-2; h > 1e-9; h /= 2.5) {
    core::Vector now;
    for (const torch::Tensor& d : along) {
      const std::optional<double> slope = central_difference(f, at, d, h);
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

core::Vector project(const torch::Tensor& gradient, const std::vector<torch::Tensor>& along) {
  core::Vector out;
  for (const torch::Tensor& d : along) out.push_back((gradient * d).sum().item<double>());
  return out;
}

double distance(const core::Vector& a, const core::Vector& b, double least) {
  core::Vector d = a;
  for (size_t k = 0; k < d.size(); ++k) d[k] -= b[k];
  return norm(d) / std::max(norm(b), least);
}

}  // namespace orthobatch::check
