#include "experiment/row_result.h"

#include <fmt/core.h>

#include <algorithm>

namespace orthobatch::experiment {
namespace {

using Status = RowResult::Status;

/// None where one of the values is infinite: a mean of the others would not be theirs.
Estimate estimate_of_finite(const std::vector<std::optional<double>>& values) {
  std::vector<double> finite;
  for (const auto& value : values)
    if (value) finite.push_back(*value);
  return finite.size() == values.size() ? Estimate::of(finite) : Estimate();
}

int64_t epochs_made(const run::RunRecord& run) {
  return run.epochs.empty() ? 0 : run.epochs.back().epoch;
}

int64_t epochs_made(const RowResult& row) {
  int64_t most = 0;
  for (const run::RunRecord& run : row.runs) most = std::max(most, epochs_made(run));
  return most;
}

void settle_status(RowResult& row) {
  const auto note = [&](Status status, const std::string& text) {
    row.status = std::max(row.status, status);
    row.remark += (row.remark.empty() ? "" : "; ") + text;
  };
  const bool several = row.runs.size() > 1;
  const auto of_seed = [&](const run::RunRecord& run) {
    return several ? fmt::format(" (seed {})", run.seed) : "";
  };
  row.status = Status::done;
  for (const run::RunRecord& run : row.runs)
    if (run.diverged)
      note(Status::diverged,
           fmt::format("diverged in epoch {}{}", run.diverged->epoch, of_seed(run)));
  if (row.status == Status::diverged) return;
  const int64_t furthest = epochs_made(row);
  for (const run::RunRecord& run : row.runs) {
    const int64_t made = epochs_made(run);
    const char* uncounted = made > 0 && made < furthest ? ", not counted" : "";
    if (!run.failed.empty())
      note(Status::failed, fmt::format("failed after {} epochs{}{}: {}", made, of_seed(run),
                                       uncounted, run.failed));
    else if (!run.there)
      note(Status::missing, "not run yet" + of_seed(run));
    else if (!run.stopped_early.empty())
      note(Status::done, fmt::format("stopped early, after {} of {} epochs{}", made,
                                     run.epochs_wanted, of_seed(run)));
    else if (const int64_t wanted = std::max(run.epochs_wanted, furthest); made < wanted)
      note(Status::incomplete,
           fmt::format("{} of {} epochs{}{}", made, wanted, of_seed(run), uncounted));
  }
}

}  // namespace

bool diverged(const RowResult& row) { return row.status == Status::diverged; }

bool comparable(const RowResult& a, const RowResult& b) {
  return a.finished && b.finished && a.epochs == b.epochs;
}

const char* status_text(Status status) {
  constexpr const char* texts[] = {"done", "missing", "incomplete", "failed", "diverged"};
  return texts[static_cast<size_t>(status)];
}

RowResult summarize_row(const ExperimentRow& row, std::vector<run::RunRecord> runs) {
  RowResult result;
  result.row = row;
  result.runs = std::move(runs);
  settle_status(result);
  std::vector<double> seconds;
  for (const run::RunRecord& run : result.runs)
    if (run.steady()) seconds.push_back(*run.seconds_per_epoch());
  std::sort(seconds.begin(), seconds.end());
  if (!seconds.empty()) result.epoch_seconds = seconds[seconds.size() / 2];
  if (result.status == Status::diverged) return result;  // never a number
  result.epochs = epochs_made(result);
  result.finished = result.epochs > 0;
  std::vector<double> best_error, best_epoch, last_error, train_error;
  std::vector<std::optional<double>> best_loss, last_loss, first_error, last_train_loss;
  for (const run::RunRecord& run : result.runs) {
    const run::EpochRecord* best = run.best();
    if (!best || (epochs_made(run) < result.epochs && run.stopped_early.empty())) continue;
    result.finished &= run.finished();
    best_error.push_back(best->test.error_percent);
    best_loss.push_back(best->test.loss);
    best_epoch.push_back(static_cast<double>(best->epoch));
    train_error.push_back(best->train_error_percent);
    last_error.push_back(run.last()->test.error_percent);
    last_loss.push_back(run.last()->test.loss);
    const run::EpochRecord& first = run.epochs.front();
    first_error.push_back(first.epoch == 1 ? std::optional(first.test.error_percent)
                                           : std::nullopt);
    last_train_loss.push_back(run.last()->train_loss);
  }
  result.best_error = Estimate::of(best_error);
  result.best_loss = estimate_of_finite(best_loss);
  result.best_epoch = Estimate::of(best_epoch);
  result.last_error = Estimate::of(last_error);
  result.last_loss = estimate_of_finite(last_loss);
  result.train_error = Estimate::of(train_error);
  result.first_error = estimate_of_finite(first_error);
  result.last_train_loss = estimate_of_finite(last_train_loss);
  return result;
}

}  // namespace orthobatch::experiment
