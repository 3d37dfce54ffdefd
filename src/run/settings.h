#pragma once
// Settings of a run by name, and how they are changed from the command line.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "run/config.h"

namespace orthobatch::run {

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

/// Whether it may change in the middle of a run: its data, net and seed may not.
bool is_changeable(const std::string& key);
/// Throws std::invalid_argument where it may not.
void require_changeable(const Setting& setting);

/// Puts it into a config.
void apply_setting(const Setting& setting, nlohmann::json& config);

}  // namespace orthobatch::run
