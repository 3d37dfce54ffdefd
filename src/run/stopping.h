#pragma once
// When a run ends before its last epoch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/epoch_record.h"

namespace orthobatch {

/// Both rules look at the test set, as the choice of the best epoch does: docs/runs.md says what
/// that means for the error.
struct StopRules {
  std::optional<double> target_error;  ///< percent: an epoch with no more than that is the last
  int64_t patience = 0;  ///< so many epochs in a row without a better one are enough; 0: no rule
  /// Where the rules begin to count: a run that they ended, and that was told to go on, has a
  /// target that it met behind it, and its patience anew.
  int64_t from = 0;

  bool any() const { return target_error || patience > 0; }
};

/// Throws std::invalid_argument that names the number that is out of range.
void check_rules(const StopRules& rules);

/// Why a run that has made these epochs is over; empty: it is not.
std::string stop_reason(const StopRules& rules, const std::vector<EpochRecord>& epochs);

}  // namespace orthobatch
