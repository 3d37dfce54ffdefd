#include "experiment/results.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "io/file.h"
#include "io/json.h"
#include "run/names.h"

namespace orthobatch::experiment {
namespace {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

ExperimentResult read_experiment(const std::string& folder, const std::string& file) {
  const std::string path = io::join_path(folder, file);
  const nlohmann::json json = io::parse_json(io::read_text(path), path);
  ExperimentResult result;
  result.experiment = experiment_from_json(
      json, file.substr(0, file.size() - std::string(run::experiment_suffix).size()), path);
  result.made = json.contains("made") ? json.at("made") : nlohmann::json();
  for (const ExperimentRow& row : result.experiment.rows) {
    std::vector<run::RunRecord> runs;
    for (const uint64_t seed : row.seeds) {
      runs.push_back(run::read_run(run_folder_path(folder, row, seed)));
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
  std::vector<run::RunRecord> runs;

  bool takes(const run::RunRecord& run) const {
    return runs.front().layers == run.layers && runs.front().settings == run.settings &&
           std::none_of(runs.begin(), runs.end(),
                        [&](const run::RunRecord& other) { return other.seed == run.seed; });
  }
};

/// A run that is no further seed of a row is a row of its own, named after its folder where its
/// layers are not enough.
void add_run(run::RunRecord run, const std::string& folder, std::vector<LooseRow>& rows) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const LooseRow& row) {
    return !run.layers.empty() && row.takes(run);
  });
  if (it != rows.end()) {
    it->runs.push_back(std::move(run));
    return;
  }
  const std::string name =
      base::printable(std::filesystem::path(folder + "/").parent_path().filename().string());
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
    run::RunRecord run = run::read_run(folder);
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
      for (const run::RunRecord& run : runs) row.seeds.push_back(run.seed);
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

Errors without_printed(Errors errors, const ExperimentResult& result) {
  for (const GradientPair& pair : result.verdict.pairs) errors[pair.printed_row] = std::nullopt;
  return errors;
}

}  // namespace

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
    if (run::is_run(folder)) loose.push_back(folder);
    for (const std::string& name : names_in(folder)) {
      if (name != run::experiment_suffix && base::ends_with(name, run::experiment_suffix))
        out.push_back(read_experiment(folder, name));
      if (run::is_run(io::join_path(folder, name))) loose.push_back(io::join_path(folder, name));
    }
    if (out.size() + loose.size() == before)
      throw io::FileError(folder, "folder", "a run, runs, or what reproduce wrote", "none of them");
  }
  for (ExperimentResult& result : group_runs(loose)) out.push_back(std::move(result));
  for (ExperimentResult& result : out) {
    compare_times(result);
    result.verdict = gradient_verdict(result.rows);
    result.claims = judge_claims(result.experiment.claims, result.rows);
  }
  std::stable_partition(out.begin(), out.end(), [](const ExperimentResult& result) {
    return result.verdict.pairs.empty();
  });
  return out;
}

}  // namespace orthobatch::experiment
