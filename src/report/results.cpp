#include "report/results.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "experiment/reproduce.h"
#include "io/file.h"
#include "io/json.h"
#include "report/verdict.h"

namespace orthobatch {
namespace {

using Status = RowResult::Status;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_run(const std::string& folder) {
  return file_exists(join_path(folder, "config.json")) ||
         file_exists(join_path(folder, "metrics.jsonl"));
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

ExperimentResult read_experiment(const std::string& folder, const std::string& file) {
  const std::string path = join_path(folder, file);
  const nlohmann::json json = parse_json(read_text(path), path);
  ExperimentResult result;
  result.experiment = experiment_from_json(
      json, file.substr(0, file.size() - std::string(experiment_suffix).size()), path);
  result.made = json.contains("made") ? json.at("made") : nlohmann::json();
  for (const ExperimentRow& row : result.experiment.rows) {
    std::vector<RunRecord> runs;
    for (const uint64_t seed : row.seeds) {
      runs.push_back(read_run(run_folder_path(folder, row, seed)));
      // As the folder's name and the experiment say, whether its config is there or not.
      runs.back().seed = seed;
      runs.back().epochs_wanted = std::max(runs.back().epochs_wanted, row.config.epochs);
    }
    result.rows.push_back(summarize_row(row, std::move(runs)));
  }
  return result;
}

struct LooseRow {
  std::string name;
  std::vector<RunRecord> runs;

  bool takes(const RunRecord& run) const {
    return runs.front().layers == run.layers && runs.front().settings == run.settings &&
           std::none_of(runs.begin(), runs.end(),
                        [&](const RunRecord& other) { return other.seed == run.seed; });
  }
};

/// A run that is no further seed of a row is a row of its own, named after its folder where its
/// layers are not enough.
void add_run(RunRecord run, const std::string& folder, std::vector<LooseRow>& rows) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const LooseRow& row) {
    return !run.layers.empty() && row.takes(run);
  });
  if (it != rows.end()) {
    it->runs.push_back(std::move(run));
    return;
  }
  const std::string name = std::filesystem::path(folder + "/").parent_path().filename().string();
  const bool taken = std::any_of(rows.begin(), rows.end(),
                                 [&](const LooseRow& row) { return row.name == run.layers; });
  const std::string& layers = run.layers;
  rows.push_back({layers.empty() ? name : taken ? layers + ", " + name : layers, {}});
  rows.back().runs.push_back(std::move(run));
}

/// Runs of `train`: an experiment for each data set, a row for each choice of layers and settings.
std::vector<ExperimentResult> group_runs(const std::vector<std::string>& folders) {
  std::map<std::string, std::vector<LooseRow>> by_data;
  for (const std::string& folder : folders) {
    RunRecord run = read_run(folder);
    add_run(run, folder, by_data[run.data.empty() ? "unknown" : run.data]);
  }
  std::vector<ExperimentResult> out;
  for (auto& [data, rows] : by_data) {
    ExperimentResult result;
    result.experiment.name = "runs-" + data;
    result.experiment.title = "Runs on " + data;
    result.experiment.figures = {{"All runs", {"*"}, 0}};
    for (auto& [name, runs] : rows) {
      ExperimentRow row;
      row.name = name;
      row.config.data = data;
      for (const RunRecord& run : runs) row.seeds.push_back(run.seed);
      result.experiment.rows.push_back(row);
      result.rows.push_back(summarize_row(row, std::move(runs)));
    }
    out.push_back(std::move(result));
  }
  return out;
}

void compare_times(ExperimentResult& result) {
  const auto bn = std::find_if(result.rows.begin(), result.rows.end(),
                               [](const RowResult& r) { return r.row.name == "BN"; });
  if (bn == result.rows.end() || !(bn->epoch_seconds > 0)) return;
  for (RowResult& row : result.rows)
    if (row.epoch_seconds > 0) row.times_bn = row.epoch_seconds / bn->epoch_seconds;
}

/// None where one of the values is infinite: a mean of the others would not be theirs.
Estimate estimate_of_finite(const std::vector<std::optional<double>>& values) {
  std::vector<double> finite;
  for (const auto& value : values)
    if (value) finite.push_back(*value);
  return finite.size() == values.size() ? Estimate::of(finite) : Estimate();
}

int64_t epochs_made(const RunRecord& run) {
  return run.epochs.empty() ? 0 : run.epochs.back().epoch;
}

int64_t epochs_made(const RowResult& row) {
  int64_t most = 0;
  for (const RunRecord& run : row.runs) most = std::max(most, epochs_made(run));
  return most;
}

Errors without_printed(Errors errors, const ExperimentResult& result) {
  for (const GradientPair& pair : gradient_verdict(result).pairs)
    errors[pair.printed_row] = std::nullopt;
  return errors;
}

void settle_status(RowResult& row) {
  const auto note = [&](Status status, const std::string& text) {
    row.status = std::max(row.status, status);
    row.remark += (row.remark.empty() ? "" : "; ") + text;
  };
  const bool several = row.runs.size() > 1;
  const auto of_seed = [&](const RunRecord& run) {
    return several ? fmt::format(" (seed {})", run.seed) : "";
  };
  row.status = Status::done;
  for (const RunRecord& run : row.runs)
    if (run.diverged)
      note(Status::diverged,
           fmt::format("diverged in epoch {}{}", run.diverged->epoch, of_seed(run)));
  if (row.status == Status::diverged) return;
  const int64_t furthest = epochs_made(row);
  for (const RunRecord& run : row.runs) {
    const int64_t made = epochs_made(run);
    const char* uncounted = made > 0 && made < furthest ? ", not counted" : "";
    if (!run.failed.empty())
      note(Status::failed, fmt::format("failed after {} epochs{}{}: {}", made, of_seed(run),
                                       uncounted, run.failed));
    else if (!run.there)
      note(Status::missing, "not run yet" + of_seed(run));
    else if (const int64_t wanted = std::max(run.epochs_wanted, furthest); made < wanted)
      note(Status::incomplete,
           fmt::format("{} of {} epochs{}{}", made, wanted, of_seed(run), uncounted));
  }
}

}  // namespace

const char* status_text(Status status) {
  switch (status) {
    case Status::done:
      return "done";
    case Status::incomplete:
      return "incomplete";
    case Status::diverged:
      return "diverged";
    case Status::failed:
      return "failed";
    case Status::missing:
      return "missing";
  }
  return "";
}

RowResult summarize_row(const ExperimentRow& row, std::vector<RunRecord> runs) {
  RowResult result;
  result.row = row;
  result.runs = std::move(runs);
  settle_status(result);
  // The fastest: on a machine with other work the rest say more about that work.
  for (const RunRecord& run : result.runs)
    for (const EpochRecord& e : run.epochs)
      if (result.epoch_seconds == 0 || e.train_seconds < result.epoch_seconds)
        result.epoch_seconds = e.train_seconds;
  if (result.status == Status::diverged) return result;  // never a number
  result.epochs = epochs_made(result);
  result.finished = result.epochs > 0;
  std::vector<double> best_error, best_epoch, last_error, train_error;
  std::vector<std::optional<double>> best_loss, last_loss;
  for (const RunRecord& run : result.runs) {
    const EpochRecord* best = run.best();
    if (!best || epochs_made(run) < result.epochs) continue;
    result.finished &= result.epochs >= run.epochs_wanted;
    best_error.push_back(best->test_error);
    best_loss.push_back(best->test_loss);
    best_epoch.push_back(static_cast<double>(best->epoch));
    train_error.push_back(best->train_error);
    last_error.push_back(run.last()->test_error);
    last_loss.push_back(run.last()->test_loss);
  }
  result.best_error = Estimate::of(best_error);
  result.best_loss = estimate_of_finite(best_loss);
  result.best_epoch = Estimate::of(best_epoch);
  result.last_error = Estimate::of(last_error);
  result.last_loss = estimate_of_finite(last_loss);
  result.train_error = Estimate::of(train_error);
  return result;
}

Errors our_errors(const ExperimentResult& result) {
  Errors out;
  for (const RowResult& row : result.rows)
    out.push_back(row.finished ? std::optional<double>(row.best_error.mean) : std::nullopt);
  return without_printed(std::move(out), result);
}

Errors paper_errors(const ExperimentResult& result) {
  Errors out;
  for (const RowResult& row : result.rows) out.push_back(row.row.paper.error_percent);
  return without_printed(std::move(out), result);
}

std::vector<ExperimentResult> read_results(const std::vector<std::string>& folders) {
  std::vector<ExperimentResult> out;
  std::vector<std::string> loose;  // folders of runs without an experiment
  for (const std::string& folder : folders) {
    const size_t before = out.size() + loose.size();
    if (is_run(folder)) loose.push_back(folder);
    for (const std::string& name : names_in(folder)) {
      if (ends_with(name, experiment_suffix)) out.push_back(read_experiment(folder, name));
      if (is_run(join_path(folder, name))) loose.push_back(join_path(folder, name));
    }
    if (out.size() + loose.size() == before)
      throw FileError(folder, "folder", "a run, runs, or what reproduce wrote", "none of them");
  }
  for (ExperimentResult& result : group_runs(loose)) out.push_back(std::move(result));
  for (ExperimentResult& result : out) compare_times(result);
  std::stable_partition(out.begin(), out.end(), [](const ExperimentResult& result) {
    return gradient_verdict(result).pairs.empty();
  });
  return out;
}

}  // namespace orthobatch
