#pragma once
// The results of experiments, from their run folders alone.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "experiment/claims.h"
#include "experiment/row_result.h"
#include "experiment/verdict.h"

namespace orthobatch::experiment {

struct ExperimentResult {
  Experiment experiment;
  nlohmann::json made;  ///< command and machine, as reproduce wrote them; null: unknown
  std::vector<RowResult> rows;
  GradientVerdict verdict;
  std::vector<ClaimResult> claims;
};

/// Every experiment in the folders, those that compare gradients last: folders that reproduce
/// wrote; or folders of runs, which become an experiment for each data set. Throws FileError for a
/// folder with neither.
std::vector<ExperimentResult> read_results(const std::vector<std::string>& folders);

/// Places are those of layers: rows with a printed gradient have none beside their exact ones.
Errors our_errors(const ExperimentResult& result);
Errors paper_errors(const ExperimentResult& result);

}  // namespace orthobatch::experiment
