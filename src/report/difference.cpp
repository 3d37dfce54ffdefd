#include "report/difference.h"

#include <algorithm>
#include <cmath>

namespace orthobatch {
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

}  // namespace orthobatch
