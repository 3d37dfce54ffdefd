#pragma once
// Going on with a run: its files are read once, and must belong together.

#include <optional>
#include <string>
#include <vector>

#include "run/settings.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"

namespace orthobatch::train {

/// Where a run goes on.
struct Resumption {
  run::TrainConfig config;               ///< config.json's, with the changes asked for
  std::optional<Checkpoint> checkpoint;  ///< none: the run has not begun
  std::string origin;                    ///< config.json's
  std::string complaint;  ///< what is wrong with a newer checkpoint that was passed over
  std::string metrics;    ///< the lines of the epochs that the checkpoint has made, …
  std::vector<run::EpochRecord> epochs;  ///< … and what they say
  /// Config.json's "changed": for each change of a setting that decides the numbers, the epoch and
  /// step it was made after, and under "from" what it was.
  nlohmann::ordered_json changed = nlohmann::ordered_json::array();
};

/// What a config.json says, with these changes made; checked. `name` is the file's, for errors.
run::TrainConfig config_with(nlohmann::json object, const std::vector<run::Setting>& changes,
                             const std::string& name);

/// Throws FileError, naming what differs, where a checkpoint is not of the run in a folder: of its
/// config.json, unless `changes` undo the difference, and metrics.jsonl, as far as they are there.
void require_of_run(const Checkpoint& checkpoint, const std::string& folder,
                    const std::vector<run::Setting>& changes = {});

/// `best` of a run's folder. Throws as require_of_run.
Checkpoint read_best(const std::string& folder);

/// Reads config.json, the newest checkpoint that is whole, and metrics.jsonl. Throws FileError
/// where they are not of one run, naming what differs; where a checkpoint is there and cannot be
/// read, as opposed to one that is damaged; and where none is whole. Lines of metrics.jsonl beyond
/// the checkpoint are made again. Throws std::invalid_argument for `changes` that are out of range
/// or that the run is past. Nothing is written.
Resumption open_run(const RunFolder& folder, const std::vector<run::Setting>& changes = {});

}  // namespace orthobatch::train
