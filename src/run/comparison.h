#pragma once
// Where the configs of runs differ.

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace orthobatch {

using SettingValue = std::pair<std::string, nlohmann::json>;

/// All settings of a run by dotted name, "schedule.learning_rate", in the order of config.json, as
/// this version understands them; "layer" for the layers of all blocks, then "blocks[0].fov" and so
/// on. With them "version", and what the run found: "found.train_images". None where config.json
/// cannot be read.
std::vector<SettingValue> settings_of_run(const std::string& path);

/// A setting that some of the runs have otherwise.
struct SettingRow {
  std::string name;
  std::vector<nlohmann::json> values;  ///< of each run; null: it has none
};
/// Runs without settings are left out of the comparison, with null for a value.
std::vector<SettingRow> differing_settings(const std::vector<std::vector<SettingValue>>& runs);

/// "0.125", "mnist", "true"; "-" for null.
std::string value_text(const nlohmann::json& value);

/// What was changed in the middle of a run, a line each: "after epoch 3: schedule.learning_rate was
/// 0.125".
std::vector<std::string> changes_in_run(const std::string& path);

}  // namespace orthobatch
