#pragma once
// Two means over seeds, and how far apart noise alone may put them.

#include <optional>
#include <vector>

#include "report/statistics.h"

namespace orthobatch {

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

/// What Welch's t exceeds by chance once in twenty tables of so many comparisons (Bonferroni's
/// correction); 0 without a standard error.
double noise_of(const MeanDifference& difference, size_t comparisons);

}  // namespace orthobatch
