#pragma once
// The tables of an experiment.

#include "experiment/results.h"
#include "report/table.h"

namespace orthobatch::report {

/// A row for each row: the paper's numbers beside ours.
Table result_table(const experiment::ExperimentResult& result);

/// A row for each layer with both gradients.
Table verdict_table(const experiment::ExperimentResult& result);

/// A row for each claim, a column for each data set: yes, no or undecided.
Table answers_table(const std::vector<experiment::ExperimentResult>& results);

/// A row for each pair of each claim; the claim stands in its first.
Table claims_table(const experiment::ExperimentResult& result);

}  // namespace orthobatch::report
