#pragma once
// A row of an experiment: what its runs come to, over their seeds.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/statistics.h"
#include "run/run_record.h"

namespace orthobatch::experiment {

struct RowResult {
  ExperimentRow row;
  std::vector<run::RunRecord> runs;  ///< one a seed
  // Over the seeds that got furthest, so that no early epoch is averaged with a late one; n = 0
  // where nothing can be said, as for a row that diverged.
  Estimate best_error, best_loss, best_epoch, last_error, last_loss, train_error;
  Estimate first_error;            ///< test error after the first epoch
  Estimate last_train_loss;        ///< mean training loss of the last epoch
  int64_t epochs = 0;              ///< that those seeds have made
  bool finished = false;           ///< those seeds have made all epochs they were to make
  double epoch_seconds = 0;        ///< seconds_per_epoch of its steady runs, their median; 0: none
  std::optional<double> times_bn;  ///< epoch_seconds over BN's
  /// The gravest that one of its seeds came to.
  enum class Status { done, missing, incomplete, failed, diverged } status = Status::missing;
  std::string remark;  ///< what is to be known beside its numbers: "diverged in epoch 3 (seed 1)"
};

bool diverged(const RowResult& row);

/// Both came to their ends, and those are of the same number of epochs.
bool comparable(const RowResult& a, const RowResult& b);

/// Of each row, in percent; none where there is no number, or not yet one to compare.
using Errors = std::vector<std::optional<double>>;

const char* status_text(RowResult::Status status);

/// Rows from their runs.
RowResult summarize_row(const ExperimentRow& row, std::vector<run::RunRecord> runs);

}  // namespace orthobatch::experiment
