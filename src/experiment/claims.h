#pragma once
// What the rows of an experiment say of the paper's claims.

#include <optional>
#include <vector>

#include "experiment/row_result.h"
#include "experiment/statistics.h"

namespace orthobatch::experiment {

enum class Answer { yes, no, undecided };
const char* to_string(Answer answer);

struct ClaimPair {
  size_t first = 0, second = 0;              ///< in the rows
  Estimate first_figure, second_figure;      ///< n = 0: none
  std::optional<MeanDifference> difference;  ///< first − second; empty: one of them has no figure
  double noise = 0;                          ///< a difference up to this is noise
  std::optional<double> paper;               ///< the paper's difference, of least test errors
  Answer answer = Answer::undecided;
};

struct ClaimResult {
  ExperimentClaim claim;
  std::vector<ClaimPair> pairs;
  /// Yes where every pair is as claimed, beyond noise; no where one is the other way round, beyond
  /// noise; undecided else.
  Answer answer = Answer::undecided;

  int count(Answer of) const;
};

/// Noise: two-sample t test, Bonferroni-corrected over the pairs of a claim, 5 %, with the variance
/// pooled over all rows that have several seeds. A row that diverged is behind one that did not.
std::vector<ClaimResult> judge_claims(const std::vector<ExperimentClaim>& claims,
                                      const std::vector<RowResult>& rows);

}  // namespace orthobatch::experiment
