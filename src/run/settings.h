#pragma once
// Settings of a run by name: where two runs differ, and how one is changed from the command line.

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "run/config.h"

namespace orthobatch {

/// Threads that were left open: as many as the machine has.
void use_all_threads(TrainConfig& config, int sharers = 1);

/// A member of config.json, those of its objects with a dot: "schedule.learning_rate".
struct Setting {
  std::string key;
  nlohmann::json value;
};

/// From "KEY=VALUE"; the value is JSON, or else a text. Throws std::invalid_argument, with a
/// suggestion, where config.json has no such member.
Setting parse_setting(const std::string& text);

/// Throws std::invalid_argument for a setting that a run is made with once and for all: its data,
/// net and seed.
void require_changeable(const Setting& setting);

/// Puts it into a config.
void apply_setting(const Setting& setting, nlohmann::json& config);

/// One setting that two configs have otherwise.
struct Difference {
  std::string key;
  nlohmann::json expected, found;  ///< null: it is not there
};
std::vector<Difference> differences(const nlohmann::json& expected, const nlohmann::json& found);

}  // namespace orthobatch
