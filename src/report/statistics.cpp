#include "report/statistics.h"

#include <algorithm>
#include <cmath>

namespace orthobatch {

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

}  // namespace orthobatch
