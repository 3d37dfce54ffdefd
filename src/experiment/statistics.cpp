#include "experiment/statistics.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::experiment {
namespace {

constexpr double significance = 0.05;

/// Variance of one mean, and the degrees of freedom it is known with.
struct MeanVariance {
  double variance = 0;
  int freedom = 0;
  bool borrowed = false;
};

MeanVariance variance_of_mean(const Estimate& e, const Spread& pooled) {
  if (e.deviation) return {*e.deviation * *e.deviation / e.n, e.n - 1, false};
  return {pooled.deviation * pooled.deviation / e.n, pooled.freedom, true};
}

/// Welch and Satterthwaite's: the two deviations need not be equal. One that is borrowed shares
/// data with the other, so that together they know no more than what was borrowed.
double degrees_of_freedom(const MeanVariance& a, const MeanVariance& b) {
  const double most =
      a.borrowed || b.borrowed ? std::max(a.freedom, b.freedom) : a.freedom + b.freedom;
  const double sum = a.variance + b.variance;
  if (sum == 0) return most;
  return std::min(
      most,
      sum * sum / (a.variance * a.variance / a.freedom + b.variance * b.variance / b.freedom));
}

}  // namespace

Estimate Estimate::of(const std::vector<double>& values) {
  Estimate e;
  e.n = static_cast<int>(values.size());
  if (e.n == 0) return e;
  for (const double v : values) e.mean += v / e.n;
  if (e.n < 2) return e;
  double squares = 0;
  for (const double v : values) squares += (v - e.mean) * (v - e.mean);
  e.deviation = std::sqrt(squares / (e.n - 1));
  return e;
}

std::vector<int> ranks_of(const std::vector<std::optional<double>>& values) {
  std::vector<int> out;
  for (const auto& v : values)
    out.push_back(v ? 1 + static_cast<int>(std::count_if(values.begin(), values.end(),
                                                         [&](const std::optional<double>& other) {
                                                           return other && *other < *v;
                                                         }))
                    : 0);
  return out;
}

double student_quantile(double probability, double freedom) {
  // With t = √f · tan θ the density becomes cos^(f−1) θ, smooth on a bounded interval.
  const double f = freedom, pi = std::acos(-1.0);
  const double norm = std::exp(std::lgamma((f + 1) / 2) - std::lgamma(f / 2)) / std::sqrt(pi);
  const auto below = [&](double theta) {  // Simpson's rule from 0
    const int steps = 400;
    double sum = 0;
    for (int i = 0; i <= steps; ++i)
      sum += (i == 0 || i == steps ? 1
              : i % 2 == 1         ? 4
                                   : 2) *
             std::pow(std::cos(theta * i / steps), f - 1);
    return 0.5 + norm * sum * theta / steps / 3;
  };
  double low = 0, high = pi / 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (below(middle) < probability ? low : high) = middle;
  }
  return std::sqrt(f) * std::tan(low);
}

std::optional<double> rank_correlation(const std::vector<std::optional<double>>& a,
                                       const std::vector<std::optional<double>>& b) {
  std::vector<double> x, y;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (a[i] && b[i]) {
      x.push_back(*a[i]);
      y.push_back(*b[i]);
    }
  if (x.size() < 3) return std::nullopt;
  // Equal values share the mean of their places: the correlation of places is then Spearman's.
  const auto places = [](const std::vector<double>& values) {
    std::vector<double> out;
    for (const double v : values) {
      double below = 0, equal = 0;
      for (const double other : values) {
        below += other < v;
        equal += other == v;
      }
      out.push_back(below + (equal - 1) / 2);
    }
    return out;
  };
  const std::vector<double> px = places(x), py = places(y);
  const double middle = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (px[i] - middle) * (py[i] - middle);
    xx += (px[i] - middle) * (px[i] - middle);
    yy += (py[i] - middle) * (py[i] - middle);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

Spread pooled_spread(const std::vector<Estimate>& estimates) {
  double squares = 0;
  int freedom = 0;
  for (const Estimate& e : estimates)
    if (e.deviation) {
      squares += *e.deviation * *e.deviation * (e.n - 1);
      freedom += e.n - 1;
    }
  return {freedom > 0 ? std::sqrt(squares / freedom) : 0, freedom};
}

MeanDifference difference_of(const Estimate& a, const Estimate& b, const Spread& pooled) {
  const MeanVariance of_a = variance_of_mean(a, pooled), of_b = variance_of_mean(b, pooled);
  MeanDifference out;
  out.value = a.mean - b.mean;
  out.own_deviation = !of_a.borrowed && !of_b.borrowed;
  if (of_a.freedom == 0 || of_b.freedom == 0) return out;
  out.freedom = degrees_of_freedom(of_a, of_b);
  out.standard_error = std::sqrt(of_a.variance + of_b.variance);
  return out;
}

double noise_of(const MeanDifference& difference, size_t comparisons) {
  if (!difference.standard_error) return 0;
  const double tables = std::max<double>(1, static_cast<double>(comparisons));
  return *difference.standard_error *
         student_quantile(1 - significance / 2 / tables, difference.freedom);
}

}  // namespace orthobatch::experiment
