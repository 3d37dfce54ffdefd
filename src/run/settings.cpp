#include "run/settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "base/text.h"

namespace orthobatch::run {
namespace {

using nlohmann::json;

/// Every member that config.json may have, by its dotted name.
std::vector<std::string> setting_names() {
  std::vector<std::string> out = {"layer"};
  for (const SettingInfo& setting : all_settings()) out.push_back(setting.key);
  return out;
}

}  // namespace

void use_all_threads(TrainConfig& config, int sharers) {
  if (config.threads == 0)
    config.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / sharers);
}

Setting parse_setting(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw std::invalid_argument(
        fmt::format("--set: expected KEY=VALUE, as schedule.learning_rate=0.1, found '{}'", text));
  Setting setting{text.substr(0, equals), json()};
  const std::vector<std::string> names = setting_names();
  if (std::find(names.begin(), names.end(), setting.key) == names.end())
    throw std::invalid_argument(fmt::format("--set: no setting '{}', expected {}{}", setting.key,
                                            base::join_choices(names),
                                            base::suggestion(setting.key, names)));
  const std::string value = text.substr(equals + 1);
  setting.value = json::accept(value) ? io::parse_json(value, "--set " + setting.key) : json(value);
  return setting;
}

bool is_changeable(const std::string& key) {
  const std::string member = key.substr(0, key.find('.'));
  return member == "refresh_images" || member == "schedule" || member == "augment" ||
         !decides_numbers(member);
}

void require_changeable(const Setting& setting) {
  if (is_changeable(setting.key)) return;
  std::vector<std::string> names;
  for (const std::string& name : setting_names())
    if (is_changeable(name)) names.push_back(name);
  throw std::invalid_argument(
      fmt::format("--set {}: cannot be changed once a run has begun; expected {}", setting.key,
                  base::join_choices(names)));
}

void apply_setting(const Setting& setting, json& config) {
  const size_t dot = setting.key.find('.');
  if (dot == std::string::npos) {
    config[setting.key] = setting.value;
    return;
  }
  json& inner = config[setting.key.substr(0, dot)];
  if (inner.is_null() || inner.is_object()) inner[setting.key.substr(dot + 1)] = setting.value;
}

}  // namespace orthobatch::run
