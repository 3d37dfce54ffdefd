#include "train/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "io/file.h"
#include "io/json.h"

namespace orthobatch {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr uint64_t largest_metrics = uint64_t{1} << 28;
constexpr const char* changed_key = "changed";

/// The newest that is whole. Only damage leads to the one before: what cannot be read may be good,
/// and going on from an older one would write over it.
std::optional<Checkpoint> newest_checkpoint(const RunFolder& folder, std::string& complaint) {
  for (const std::string& path : folder.checkpoints()) {
    Bytes bytes = read_file(path, largest_checkpoint);
    try {
      return parse_checkpoint(std::move(bytes), path);
    } catch (const FileError& error) {
      if (complaint.empty()) complaint = error.what();
    }
  }
  if (!complaint.empty()) throw std::runtime_error(complaint);
  return std::nullopt;
}

TrainConfig config_with(json object, const std::vector<Setting>& changes, const std::string& name) {
  for (const Setting& change : changes) apply_setting(change, object);
  TrainConfig config = config_from_json(object, name);
  use_all_threads(config);
  check_config(config);
  return config;
}

/// The changes that config.json records, each with what it was before.
const json& changes_of(const json& config, const std::string& path) {
  static const json none = json::array();
  const auto it = config.find(changed_key);
  if (it == config.end()) return none;
  bool good = it->is_array();
  for (const json& change : good ? *it : none)
    good = good && change.is_object() && change.contains("from") && change.at("from").is_object();
  if (!good) throw FileError(path, changed_key, "a list of changes", "something else");
  return *it;
}

/// How many of the last changes in config.json the checkpoint does not have yet: a run may be
/// killed between the writing of the two, or go back to an older checkpoint. None: at no time did
/// it have the checkpoint's settings.
std::optional<size_t> changes_ahead(const json& config, const Checkpoint& checkpoint,
                                    const std::vector<Setting>& changes, const std::string& path) {
  const json expected =
      deciding_settings(config_with(to_json(checkpoint.config), changes, checkpoint.path));
  json then = config;
  const json& recorded = changes_of(config, path);
  for (size_t undone = 0;; ++undone) {
    if (json(deciding_settings(config_with(then, changes, path))) == expected) return undone;
    if (undone == recorded.size()) return std::nullopt;
    for (const auto& [key, value] : recorded[recorded.size() - 1 - undone].at("from").items())
      apply_setting({key, value}, then);
  }
}

/// Names the first thing that config.json and the checkpoint do not have alike.
[[noreturn]] void refuse_other_run(const json& config, const Checkpoint& checkpoint,
                                   const std::vector<Setting>& changes, const std::string& path) {
  const auto refuse = [&](const Difference& d, const std::string& hint) {
    throw FileError(path, d.key, fmt::format("{} as in {}", d.expected.dump(), checkpoint.path),
                    d.found.dump() + hint);
  };
  const json found = config.contains("found") ? config.at("found") : json();
  for (Difference d : differences(checkpoint.found, found)) {
    d.key = "found." + d.key;
    refuse(d, ": they are of two runs");
  }
  const json expected =
      deciding_settings(config_with(to_json(checkpoint.config), changes, checkpoint.path));
  for (const Difference& d :
       differences(expected, deciding_settings(config_with(config, changes, path)))) {
    try {
      require_changeable({d.key, d.found});
    } catch (const std::invalid_argument&) {
      refuse(d, ": they are of two runs");
    }
    refuse(d, fmt::format(": a change is made with --set {}=VALUE", d.key));
  }
  throw std::logic_error("refuse_other_run: nothing differs");
}

/// The file may be behind its checkpoint or, where the newest one was lost, ahead of it.
void require_same_metrics(const RunFolder& folder, const Checkpoint& checkpoint) {
  if (!name_taken(folder.metrics())) return;
  const std::string text = read_text(folder.metrics(), largest_metrics);
  const ordered_json& history = checkpoint.state.history;
  if (metrics_text(checkpoint.state).compare(0, text.size(), text) == 0) return;
  const auto refuse = [&](size_t line) {
    throw FileError(folder.metrics(), fmt::format("line {}", line),
                    fmt::format("epoch {} of {}", line, checkpoint.path),
                    "another: it is of another run, or was changed; without this file it is "
                    "written anew");
  };
  size_t number = 0;
  for (size_t at = 0; at < text.size() && number < history.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (parse_json_or_null(line) != json(history[number])) refuse(number + 1);
  }
  // With no epoch to compare it may still have one, and the line of one that diverged; no more.
  if (history.empty() && std::count(text.begin(), text.end(), '\n') > 2) refuse(1);
}

/// Those that config.json has and the checkpoint too, and one that leads from there to `config`.
ordered_json changes_to_record(const json& recorded, size_t ahead, const Checkpoint& checkpoint,
                               const TrainConfig& config) {
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i + ahead < recorded.size(); ++i) out.push_back(ordered_json(recorded[i]));
  ordered_json from;
  for (const Difference& d :
       differences(deciding_settings(checkpoint.config), deciding_settings(config)))
    from[d.key] = d.expected;
  if (!from.is_null())
    out.push_back(ordered_json{
        {"epoch", checkpoint.state.epoch}, {"step", checkpoint.state.step}, {"from", from}});
  return out;
}

/// Settings that a run starts with, changed in the middle of it, hold from now on.
void follow_changes(const TrainConfig& config, Checkpoint& checkpoint) {
  const ScheduleRules &before = checkpoint.config.schedule, &now = config.schedule;
  StepSettings& settings = checkpoint.state.schedule.now;
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

/// More epochs for a run that its rules ended: they count from here.
void go_on_past_stop(StopRules& rules, const TrainState& state) {
  if (!stop_reason(rules, state).empty()) rules.from = state.epoch;
}

}  // namespace

Resumption open_run(const RunFolder& folder, const std::vector<Setting>& changes) {
  Resumption out;
  out.checkpoint = newest_checkpoint(folder, out.complaint);
  const std::string path = folder.config();
  if (!name_taken(path)) throw FileError(path, "file", "the config of a run", "none");
  const json config = parse_json(read_text(path), path);
  out.config = config_with(config, changes, path);
  if (!out.checkpoint) {
    if (name_taken(folder.metrics()) && !read_text(folder.metrics(), largest_metrics).empty())
      throw FileError(folder.metrics(), "file", "a checkpoint beside it", "none");
    return out;
  }
  Checkpoint& checkpoint = *out.checkpoint;
  std::optional<size_t> ahead = changes_ahead(config, checkpoint, {}, path);
  if (!ahead) ahead = changes_ahead(config, checkpoint, changes, path);  // an edit, made good now
  if (!ahead || json(checkpoint.found) != config.value("found", json()))
    refuse_other_run(config, checkpoint, changes, path);
  require_same_metrics(folder, checkpoint);
  if (out.config.epochs < checkpoint.state.epoch)
    throw std::invalid_argument(
        fmt::format("epochs: expected {} or more, which {} has made already, found {}",
                    checkpoint.state.epoch, folder.path(), out.config.epochs));
  if (out.config.epochs > config_from_json(config, path).epochs)
    go_on_past_stop(out.config.stop, checkpoint.state);
  out.changed = changes_to_record(changes_of(config, path), *ahead, checkpoint, out.config);
  follow_changes(out.config, checkpoint);
  return out;
}

}  // namespace orthobatch
