#include "train/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "io/bounds.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "run/origin.h"

namespace orthobatch::train {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr uint64_t largest_metrics = uint64_t{1} << 28;

/// The newest that is whole. Only damage leads to the one before: what cannot be read may be good,
/// and going on from an older one would write over it.
std::optional<Checkpoint> newest_checkpoint(const RunFolder& folder, std::string& complaint) {
  if (!name_taken(folder.last()) && name_taken(folder.previous()))
    complaint = io::FileError(folder.last(), "file", "the newest checkpoint", "none").what();
  for (const std::string& path : folder.checkpoints()) {
    io::Bytes bytes = io::read_file(path, io::largest_checkpoint);
    try {
      return parse_checkpoint(std::move(bytes), path);
    } catch (const io::FileError& error) {
      if (complaint.empty()) complaint = error.what();
    }
  }
  if (!complaint.empty()) throw std::runtime_error(complaint);
  return std::nullopt;
}

/// None where there is none or it is damaged.
std::optional<Checkpoint> whole_checkpoint(const std::string& path) {
  try {
    return read_checkpoint(path);
  } catch (const io::FileError&) {
    return std::nullopt;
  }
}

/// What a config.json, after these changes, says of the run's numbers and data.
json facts_of(const json& config, const std::vector<run::Setting>& changes,
              const std::string& name) {
  json out = run::deciding_settings(config_with(config, changes, name));
  out["found"] = config.value("found", json());
  return out;
}

json facts_of(const Checkpoint& checkpoint, const std::vector<run::Setting>& changes) {
  json config = to_json(checkpoint.config);
  config["found"] = checkpoint.found;
  return facts_of(config, changes, checkpoint.path);
}

/// The changes that config.json records, each with what it was before.
json changes_of(const json& config, const std::string& path) {
  const json list = config.value("changed", json::array());
  bool good = list.is_array();
  for (const json& change : list)
    good = good && change.is_object() && change.value("from", json()).is_object();
  if (!good) throw io::FileError(path, "changed", "a list of changes", "something else");
  return list;
}

/// Whether config.json had the checkpoint's settings and data at some time, from now back; how many
/// of its last changes are to be undone for that.
std::optional<size_t> changes_undone(const json& config, const json& recorded,
                                     const Checkpoint& checkpoint,
                                     const std::vector<run::Setting>& made,
                                     const std::string& path) {
  const json expected = facts_of(checkpoint, made);
  json then = config;
  for (size_t undone = 0;; ++undone) {
    if (facts_of(then, made, path) == expected) return undone;
    if (undone == recorded.size()) return std::nullopt;
    for (const auto& [key, value] : recorded[recorded.size() - 1 - undone].at("from").items())
      run::apply_setting({key, value}, then);
  }
}

/// How many of the last changes in config.json the checkpoint does not have yet: a run may be
/// killed between the writing of the two, or go back to an older checkpoint. Where config.json had
/// the checkpoint's settings at no time, the first difference is refused, unless `changes` undo it.
size_t changes_ahead(const json& config, const Checkpoint& checkpoint,
                     const std::vector<run::Setting>& changes, const std::string& path) {
  const json recorded = changes_of(config, path);
  for (const std::vector<run::Setting>& made : {std::vector<run::Setting>{}, changes})
    if (const auto undone = changes_undone(config, recorded, checkpoint, made, path))
      return *undone;
  const io::Difference d =
      io::differences(facts_of(checkpoint, changes), facts_of(config, changes, path)).front();
  const std::string hint = run::is_changeable(d.key)
                               ? fmt::format("a change is made with --set {}=VALUE", d.key)
                               : "they are of two runs";
  throw io::FileError(path, d.key, fmt::format("{} as in {}", d.expected.dump(), checkpoint.path),
                      d.found.dump() + ": " + hint);
}

/// The lines of the epochs that the checkpoint has made. The file may have more, where the run was
/// killed before its next checkpoint or where that one was lost.
std::string lines_of(const std::string& path, const Checkpoint& checkpoint) {
  const std::string text = name_taken(path) ? io::read_text(path, largest_metrics) : "";
  const int64_t epochs = checkpoint.state.epoch;
  size_t end = 0;
  for (int64_t line = 0; line < epochs; ++line) {
    const size_t newline = text.find('\n', end);
    if (newline == std::string::npos)
      throw io::FileError(path, "lines",
                          fmt::format("{}, the epochs that {} has made", epochs, checkpoint.path),
                          std::to_string(line));
    end = newline + 1;
  }
  const std::string lines = text.substr(0, end);
  // Without an epoch to compare there may be two more, and the line of one that diverged.
  const bool others = epochs == 0 && std::count(text.begin(), text.end(), '\n') > 2;
  if (others || io::md5_hex(lines.data(), lines.size()) != checkpoint.state.metrics_md5)
    throw io::FileError(path, "lines", "the epochs of " + checkpoint.path,
                        "others: it is of another run, or was changed");
  return lines;
}

std::vector<run::EpochRecord> epochs_of(const std::string& lines, const std::string& path) {
  std::vector<run::EpochRecord> out;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);)
    out.push_back(run::epoch_from_json(io::parse_json(line, path)));
  return out;
}

/// What the checkpoint says of its best epoch is what metrics.jsonl says.
void require_best_epoch(const Checkpoint& checkpoint, const std::vector<run::EpochRecord>& epochs) {
  const run::EpochRecord* best = nullptr;
  for (const run::EpochRecord& e : epochs)
    if (!best || run::better(e.test, best->test)) best = &e;
  const auto text = [](int64_t epoch, double error, double loss) {
    return fmt::format("epoch {} with {} % and loss {}", epoch, error, loss);
  };
  const BestEpoch& found = checkpoint.state.best;
  const std::string said = text(found.epoch, found.test_error_percent, found.test_loss);
  const std::string made =
      best ? text(best->epoch, best->test.error_percent, best->test.loss.value_or(0)) : "";
  if (best && said != made)
    throw io::FileError(checkpoint.path, "best", made + " as in " + run::metrics_name,
                        said + ": it was changed");
}

/// Those that config.json has and the checkpoint too, and one that leads from there to `config`.
ordered_json changes_to_record(const json& recorded, size_t ahead, const Checkpoint& checkpoint,
                               const run::TrainConfig& config) {
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i + ahead < recorded.size(); ++i) out.push_back(ordered_json(recorded[i]));
  ordered_json from;
  for (const io::Difference& d :
       io::differences(run::deciding_settings(checkpoint.config), run::deciding_settings(config)))
    from[d.key] = d.expected;
  if (!from.is_null())
    out.push_back(ordered_json{
        {"epoch", checkpoint.state.epoch}, {"step", checkpoint.state.step}, {"from", from}});
  return out;
}

/// Settings that a run starts with, changed in the middle of it, hold from now on.
void follow_changes(const run::TrainConfig& config, Checkpoint& checkpoint) {
  const run::ScheduleRules &before = checkpoint.config.schedule, &now = config.schedule;
  run::StepSettings& settings = checkpoint.state.schedule.now;
  if (now.learning_rate != before.learning_rate) settings.learning_rate = now.learning_rate;
  if (now.momentum != before.momentum) settings.momentum = now.momentum;
  if (now.alpha_start != before.alpha_start) settings.alpha = now.alpha_start;
  if (now.batch == before.batch) return;
  if (checkpoint.state.step > 0)
    throw std::invalid_argument(fmt::format(
        "schedule.batch: expected {} to the end of epoch {}, which is under way, found {}",
        before.batch, checkpoint.state.epoch + 1, now.batch));
  settings.batch = now.batch;
}

}  // namespace

run::TrainConfig config_with(json object, const std::vector<run::Setting>& changes,
                             const std::string& name) {
  for (const run::Setting& change : changes) run::apply_setting(change, object);
  run::TrainConfig config = run::config_from_json(object, name);
  run::use_all_threads(config);
  run::check_config(config);
  return config;
}

void require_of_run(const Checkpoint& checkpoint, const std::string& folder,
                    const std::vector<run::Setting>& changes) {
  const std::string path = io::join_path(folder, run::config_name);
  if (name_taken(path)) {
    const json config = io::parse_json(io::read_text(path), path);
    changes_ahead(config, checkpoint, changes, path);
  }
  const std::string metrics = io::join_path(folder, run::metrics_name);
  if (name_taken(metrics)) lines_of(metrics, checkpoint);
}

Checkpoint read_best(const std::string& folder) {
  Checkpoint out = read_checkpoint(io::join_path(folder, run::best_name));
  require_of_run(out, folder);
  const std::string path = io::join_path(folder, run::config_name);
  // Of a run that went on here, written anew before its checkpoints are.
  if (name_taken(path)) out.origin = run::origin_in(io::parse_json(io::read_text(path), path));
  return out;
}

Resumption open_run(const RunFolder& folder, const std::vector<run::Setting>& changes) {
  Resumption out;
  out.checkpoint = newest_checkpoint(folder, out.complaint);
  const std::string path = folder.config();
  if (!name_taken(path)) throw io::FileError(path, "file", "the config of a run", "none");
  const json config = io::parse_json(io::read_text(path), path);
  out.config = config_with(config, changes, path);
  out.origin = run::origin_in(config);
  if (!out.checkpoint) {
    if (name_taken(folder.metrics()) && !io::read_text(folder.metrics(), largest_metrics).empty())
      throw io::FileError(folder.metrics(), "file", "a checkpoint beside it", "none");
    return out;
  }
  Checkpoint& checkpoint = *out.checkpoint;
  const size_t ahead = changes_ahead(config, checkpoint, changes, path);
  out.metrics = lines_of(folder.metrics(), checkpoint);
  out.epochs = epochs_of(out.metrics, folder.metrics());
  require_best_epoch(checkpoint, out.epochs);
  if (const auto best = whole_checkpoint(folder.best()))
    require_of_run(*best, folder.path(), changes);
  if (out.config.epochs < checkpoint.state.epoch)
    throw std::invalid_argument(
        fmt::format("epochs: expected {} or more, which {} has made already, found {}",
                    checkpoint.state.epoch, folder.path(), out.config.epochs));
  // More epochs for a run that its rules ended: they count from here.
  run::StopRules& stop = out.config.stop;
  if (out.config.epochs > run::config_from_json(config, path).epochs &&
      !run::stop_reason(stop, out.epochs).empty())
    stop.from = checkpoint.state.epoch;
  out.changed = changes_to_record(changes_of(config, path), ahead, checkpoint, out.config);
  follow_changes(out.config, checkpoint);
  return out;
}

}  // namespace orthobatch::train
