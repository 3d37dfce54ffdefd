#pragma once
// Means over seeds, places, and how far apart noise alone may put two means.

#include <optional>
#include <vector>

namespace orthobatch::experiment {

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

/// Deviation over seeds, and its degrees of freedom.
struct Spread {
  double deviation = 0;
  int freedom = 0;
};

/// From all that have two seeds or more: for those that have one.
Spread pooled_spread(const std::vector<Estimate>& estimates);

struct MeanDifference {
  double value = 0;                      ///< the first mean − the second
  std::optional<double> standard_error;  ///< empty: nothing has two seeds
  bool own_deviation = false;            ///< both have two seeds or more: none is borrowed
  double freedom = 0;                    ///< degrees of freedom of the standard error
};

MeanDifference difference_of(const Estimate& a, const Estimate& b, const Spread& pooled);

/// The difference that noise alone may make: Welch's t test, Bonferroni-corrected over so many
/// comparisons, 5 %. 0 without a standard error.
double noise_of(const MeanDifference& difference, size_t comparisons);

}  // namespace orthobatch::experiment
