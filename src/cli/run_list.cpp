#include "cli/run_list.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <tuple>

#include "base/text.h"
#include "experiment/results.h"
#include "io/file.h"
#include "run/names.h"

namespace orthobatch::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

void collect_runs(const std::string& folder, std::vector<std::string>& out) {
  if (run::is_run(folder)) out.push_back(folder);
  std::vector<std::string> below;
  std::error_code ignored;  // a folder that may not be read holds nothing for this user
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.' && entry.symlink_status(ignored).type() == fs::file_type::directory)
      below.push_back(io::join_path(folder, name));
  }
  std::sort(below.begin(), below.end());
  for (const std::string& path : below) collect_runs(path, out);
}

std::time_t last_change(const std::string& path) {
  std::time_t latest = 0;
  for (const char* name : {run::config_name, run::metrics_name, run::last_name}) {
    struct stat status {};
    if (::stat(io::join_path(path, name).c_str(), &status) == 0)
      latest = std::max(latest, status.st_mtime);
  }
  return latest;
}

/// What is wrong with its files. A run that was just begun has no metrics yet.
std::vector<std::string> damage_of(const run::RunRecord& run) {
  const bool begun = io::file_exists(io::join_path(run.path, run::last_name));
  const bool no_metrics = !io::file_exists(io::join_path(run.path, run::metrics_name));
  std::vector<std::string> out = run.problems;
  if (no_metrics && !begun)
    out.erase(std::remove(out.begin(), out.end(), run::missing_problem(run::metrics_name)),
              out.end());
  return out;
}

/// Whether a process trains in the folder of a run.
bool is_in_use(const std::string& folder) {
  const io::Descriptor lock(::open(io::join_path(folder, run::lock_name).c_str(),
                                   O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  // Shared, so that two who look do not take each other for a training; it goes with the file.
  return lock.get() >= 0 && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

RunState state_of(const run::RunRecord& run, bool damaged) {
  if (damaged) return RunState::damaged;
  if (is_in_use(run.path)) return RunState::running;
  if (run.diverged) return RunState::diverged;
  if (!run.failed.empty()) return RunState::failed;
  if (run.epochs.empty()) return RunState::empty;
  return run.finished() ? RunState::finished : RunState::stopped;
}

ordered_json epoch_json(const run::EpochRecord* e) {
  if (!e) return nullptr;
  ordered_json out = {{"epoch", e->epoch}, {"test_error_percent", e->test.error_percent}};
  out["test_loss"] = e->test.loss ? ordered_json(*e->test.loss) : ordered_json();
  out["train_error_percent"] = e->train_error_percent;
  out["train_loss"] = e->train_loss;
  return out;
}

double error_of(const run::EpochRecord* e) {
  return e ? e->test.error_percent : std::numeric_limits<double>::infinity();
}

using Order = std::function<bool(const ListedRun&, const ListedRun&)>;

template <typename Key>
Order by(const Key& key) {
  return [key](const ListedRun& a, const ListedRun& b) { return key(a) < key(b); };
}

const std::vector<std::pair<std::string, Order>>& orders() {
  using R = const ListedRun&;
  static const std::vector<std::pair<std::string, Order>> all = {
      {"best", by([](R r) { return error_of(r.record.best()); })},
      {"last", by([](R r) { return error_of(r.record.last()); })},
      {"name", by([](R r) { return r.path(); })},
      {"layer", by([](R r) { return std::pair(r.record.layers.empty(), r.record.layers); })},
      {"data", by([](R r) {
         return std::tuple(r.record.data.empty(), r.record.data, error_of(r.record.best()));
       })},
      {"seed", by([](R r) { return r.record.seed; })},
      {"epochs", by([](R r) { return r.record.last() ? -r.record.last()->epoch : 0; })},
      {"state", by([](R r) { return r.state; })},
      {"changed", by([](R r) { return -r.changed; })}};
  return all;
}

}  // namespace

const char* state_text(RunState state) {
  constexpr const char* texts[] = {"finished", "running", "stopped", "diverged",
                                   "failed",   "empty",   "damaged"};
  return texts[static_cast<size_t>(state)];
}

ListedRun look_at_run(const std::string& path) {
  ListedRun run;
  run.record = run::read_run(path);
  run.notes = damage_of(run.record);
  run.state = state_of(run.record, !run.notes.empty());
  run.changed = last_change(path);
  if (const auto& diverged = run.record.diverged)
    run.notes.push_back(fmt::format("diverged in epoch {}: {}", diverged->epoch, diverged->reason));
  if (!run.record.failed.empty()) run.notes.push_back("failed: " + run.record.failed);
  if (!run.record.stopped_early.empty())
    run.notes.push_back("stopped early: " + run.record.stopped_early);
  return run;
}

std::vector<std::string> find_runs(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw io::FileError(folder, "folder", "one that holds runs",
                        io::file_exists(folder) ? "a file" : "nothing");
  std::vector<std::string> out;
  collect_runs(folder, out);
  return out;
}

std::vector<std::string> run_orders() {
  std::vector<std::string> names;
  for (const auto& [name, order] : orders()) names.push_back(name);
  return names;
}

void sort_runs(std::vector<ListedRun>& runs, const std::string& order) {
  for (const auto& [name, before] : orders())
    if (name == order) std::stable_sort(runs.begin(), runs.end(), before);
}

// What matters most first: a narrow terminal cuts the rest.
const std::vector<std::string> run_columns = {"run",    "layer",      "data",    "epochs",
                                              "best %", "at",         "state",   "last %",
                                              "seed",   "train loss", "s/epoch", "changed"};

std::vector<std::string> run_cells(const ListedRun& run, const std::string& name) {
  const run::RunRecord& r = run.record;
  const run::EpochRecord *best = r.best(), *last = r.last();
  const std::optional<double> seconds = r.seconds_per_epoch();
  const auto known = [&](const std::string& text) { return r.layers.empty() ? "-" : text; };
  return {base::printable(name),
          known(r.layers),
          known(r.data),
          fmt::format("{}/{}", last ? last->epoch : 0, known(std::to_string(r.epochs_wanted))),
          best ? fmt::format("{:.2f}", best->test.error_percent) : "-",
          best ? std::to_string(best->epoch) : "-",
          state_text(run.state),
          last ? fmt::format("{:.2f}", last->test.error_percent) : "-",
          known(std::to_string(r.seed)),
          last ? fmt::format("{:.4g}", last->train_loss) : "-",
          seconds ? fmt::format("{:.1f}", *seconds) : "-",
          fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(run.changed))};
}

ordered_json to_json(const ListedRun& run) {
  const run::RunRecord& record = run.record;
  const bool known = !record.layers.empty();  // else config.json is damaged
  const auto or_null = [&](const auto& value) {
    return known ? ordered_json(value) : ordered_json();
  };
  ordered_json out = {{"path", run.path()}, {"state", state_text(run.state)}};
  out["layer"] = or_null(record.layers);
  out["data"] = or_null(record.data);
  out["seed"] = or_null(record.seed);
  out["epochs"] = record.last() ? record.last()->epoch : 0;
  out["epochs_wanted"] = or_null(record.epochs_wanted);
  out["best"] = epoch_json(record.best());
  out["last"] = epoch_json(record.last());
  const std::optional<double> seconds = record.seconds_per_epoch();
  out["seconds_per_epoch"] = seconds ? ordered_json(*seconds) : ordered_json();
  out["changed"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(run.changed));
  out["notes"] = run.notes;
  return out;
}

}  // namespace orthobatch::cli
