#pragma once
// Whether the exact gradient changes the order of the layers whose printed gradient is wrong.

#include <optional>
#include <string>
#include <vector>

#include "experiment/row_result.h"
#include "experiment/statistics.h"

namespace orthobatch::experiment {

struct GradientPair {
  std::string layer;                         ///< the spec with the exact gradient
  size_t exact_row = 0, printed_row = 0;     ///< in the rows
  std::optional<MeanDifference> difference;  ///< exact − printed, mean least test error, percent
  double noise = 0;                          ///< a difference up to this is noise
  bool one_diverged = false;                 ///< with one of the gradients, not with the other
  int rank_exact = 0, rank_printed = 0, rank_paper = 0;  ///< 0: nothing to rank by
  bool judged() const { return difference && difference->standard_error; }  ///< noise is known
  bool beyond_noise() const;
  bool moves() const;
  bool moves_surely() const;  ///< by a difference beyond noise, or by diverging
};

struct GradientVerdict {
  int layers = 0;  ///< that were ranked, references included
  std::vector<GradientPair> pairs;
};

/// Pairs rows whose specs differ in gradient=paper alone. Ranks are by least test error among all
/// layers, once with every paired layer's exact row, once with its printed one; a row that diverged
/// comes last. Noise: Welch's t test, Bonferroni-corrected over the pairs, 5 %; a row with one seed
/// borrows the deviation of those with several.
GradientVerdict gradient_verdict(const std::vector<RowResult>& rows);

}  // namespace orthobatch::experiment
