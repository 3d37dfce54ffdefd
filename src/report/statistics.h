#pragma once

#include <optional>
#include <vector>

namespace orthobatch {

/// Mean and deviation over seeds.
struct Estimate {
  int n = 0;
  double mean = 0;
  std::optional<double> deviation;  ///< of a sample (n − 1); empty for fewer than two

  static Estimate of(const std::vector<double>& values);
};

/// Places 1, 2, …, the least value first; equal values share one. An empty value has place 0.
std::vector<int> ranks_of(const std::vector<std::optional<double>>& values);

/// The t that Student's distribution with so many degrees of freedom, at least 1, stays below with
/// this probability (above one half). By hand: twenty lines of an integral in place of Boost.
double student_quantile(double probability, double freedom);

/// Spearman's rank correlation over the pairs in which both are there; empty for fewer than three,
/// or where all of one are equal.
std::optional<double> rank_correlation(const std::vector<std::optional<double>>& a,
                                       const std::vector<std::optional<double>>& b);

}  // namespace orthobatch
