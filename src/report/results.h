#pragma once
// The results of experiments, from their run folders alone.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "report/run_record.h"
#include "report/statistics.h"

namespace orthobatch {

struct RowResult {
  ExperimentRow row;
  std::vector<RunRecord> runs;  ///< one a seed
  // Over the seeds that got furthest, so that no early epoch is averaged with a late one; n = 0
  // where nothing can be said, as for a row that diverged.
  Estimate best_error, best_loss, best_epoch, last_error, last_loss, train_error;
  int64_t epochs = 0;              ///< that those seeds have made
  bool finished = false;           ///< those seeds have made all epochs they were to make
  double epoch_seconds = 0;        ///< of the fastest epoch, training alone; 0: none
  std::optional<double> times_bn;  ///< epoch_seconds over BN's
  /// The gravest that one of its seeds came to.
  enum class Status { done, missing, incomplete, failed, diverged } status = Status::missing;
  std::string remark;  ///< of a status other than done: "diverged in epoch 3 (seed 1)"
};

struct ExperimentResult {
  Experiment experiment;
  nlohmann::json made;  ///< command and machine, as reproduce wrote them; null: unknown
  std::vector<RowResult> rows;
};

const char* status_text(RowResult::Status status);

/// Every experiment in the folders, those that compare gradients last: folders that reproduce
/// wrote; or folders of runs, which become an experiment for each data set. Throws FileError for a
/// folder with neither.
std::vector<ExperimentResult> read_results(const std::vector<std::string>& folders);

/// Rows from their runs.
RowResult summarize_row(const ExperimentRow& row, std::vector<RunRecord> runs);

/// The one JSON that results.json is and the page draws from. Numbers have six digits.
nlohmann::ordered_json to_json(const std::vector<ExperimentResult>& results);

/// In one line, whatever bytes the run folders put into it.
std::string to_text(const nlohmann::ordered_json& json);

/// Of each row, in percent; none where there is no number, or not yet one to compare.
using Errors = std::vector<std::optional<double>>;
/// Places are those of layers: rows with a printed gradient have none beside their exact ones.
Errors our_errors(const ExperimentResult& result);
Errors paper_errors(const ExperimentResult& result);

}  // namespace orthobatch
