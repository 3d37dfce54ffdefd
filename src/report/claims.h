#pragma once
// What the rows of an experiment say of the paper's claims.

#include <optional>
#include <string>
#include <vector>

#include "report/difference.h"
#include "report/row_result.h"

namespace orthobatch {

enum class Answer { holds, does_not, open };
const char* to_string(Answer answer);

struct ClaimPair {
  size_t first = 0, second = 0;              ///< in the rows
  Estimate first_figure, second_figure;      ///< n = 0: none
  std::optional<MeanDifference> difference;  ///< first − second; empty: one of them has no figure
  double noise = 0;                          ///< a difference up to this is noise
  std::optional<double> paper;               ///< the paper's difference, of least test errors
  Answer answer = Answer::open;
};

struct ClaimResult {
  ExperimentClaim claim;
  std::vector<ClaimPair> pairs;
  /// Holds where every pair does, beyond noise; does not where one is the other way round, beyond
  /// noise; open else.
  Answer answer = Answer::open;

  int count(Answer of) const;
};

/// Noise is what Student's t exceeds by chance, at 5 % for all pairs of a claim together, with the
/// deviation that the rows with several seeds have in common, as in an analysis of variance. A row
/// that diverged is behind one that did not.
std::vector<ClaimResult> judge_claims(const std::vector<ExperimentClaim>& claims,
                                      const std::vector<RowResult>& rows);

/// A line each: "  does not  ZCA ends ahead of BN: 1 of 3 pairs, 2 the other way round". Empty
/// where no pair can be judged, as with one seed for every row.
std::string claims_text(const std::vector<ClaimResult>& claims);

}  // namespace orthobatch
