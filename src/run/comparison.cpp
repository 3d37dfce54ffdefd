#include "run/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>

#include "base/text.h"
#include "io/file.h"
#include "io/json.h"
#include "io/json_fields.h"
#include "run/config.h"
#include "run/names.h"

namespace orthobatch {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json config_json(const std::string& path) {
  const std::string file = join_path(path, config_name);
  return parse_json(read_text(file), file);
}

void add_blocks(const ordered_json& blocks, std::vector<SettingValue>& out) {
  for (size_t i = 0; i < blocks.size(); ++i)
    for (const auto& [key, value] : blocks[i].items())
      if (key != "layer") out.emplace_back(fmt::format("blocks[{}].{}", i, key), value);
}

void add_settings(const ordered_json& object, const std::string& prefix,
                  std::vector<SettingValue>& out) {
  for (const auto& [key, value] : object.items()) {
    if (key == "blocks")
      add_blocks(value, out);
    else if (value.is_object())
      add_settings(value, prefix + key + ".", out);
    else
      out.emplace_back(prefix + key, value);
  }
}

const json* find_value(const std::vector<SettingValue>& settings, const std::string& name) {
  const auto it = std::find_if(settings.begin(), settings.end(),
                               [&](const SettingValue& s) { return s.first == name; });
  return it == settings.end() ? nullptr : &it->second;
}

/// All names, each where the first run that has it has it.
std::vector<std::string> names_of(const std::vector<std::vector<SettingValue>>& runs) {
  std::vector<std::string> names;
  for (const auto& settings : runs) {
    size_t at = 0;
    for (const auto& [name, value] : settings) {
      const auto known = std::find(names.begin(), names.end(), name);
      if (known != names.end()) {
        at = static_cast<size_t>(known - names.begin()) + 1;
      } else {
        names.insert(names.begin() + static_cast<std::ptrdiff_t>(at), name);
        ++at;
      }
    }
  }
  return names;
}

}  // namespace

std::vector<SettingValue> settings_of_run(const std::string& path) {
  std::vector<SettingValue> out;
  try {
    const json object = config_json(path);
    TrainConfig config = config_from_json(object, path);
    check_config(config);
    out.emplace_back("layer", layers_text(config));
    add_settings(to_json(config), "", out);
    if (object.contains("version")) out.emplace_back("version", object.at("version"));
    const json found = object.value("found", json::object());
    for (const char* key : {"train_images", "test_images", "image", "labels_md5"})
      if (found.contains(key)) out.emplace_back(std::string("found.") + key, found.at(key));
  } catch (const std::exception&) {
    out.clear();  // read_run names what is wrong
  }
  return out;
}

std::vector<SettingRow> differing_settings(const std::vector<std::vector<SettingValue>>& runs) {
  std::vector<SettingRow> out;
  for (const std::string& name : names_of(runs)) {
    SettingRow row{name, {}};
    const json* first = nullptr;
    bool begun = false, differs = false;
    for (const auto& settings : runs) {
      const json* value = find_value(settings, name);
      row.values.push_back(value ? *value : json());
      if (settings.empty()) continue;
      if (begun) differs = differs || (value && first ? *value != *first : value != first);
      if (!begun) first = value;
      begun = true;
    }
    if (differs) out.push_back(row);
  }
  // Other data has other images, which says nothing more.
  const auto same_data = [&] {
    return std::none_of(out.begin(), out.end(),
                        [](const SettingRow& r) { return r.name == "data" || r.name == "subset"; });
  };
  if (!same_data())
    out.erase(std::remove_if(out.begin(), out.end(),
                             [](const SettingRow& r) { return r.name.rfind("found.", 0) == 0; }),
              out.end());
  return out;
}

std::string value_text(const json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.dump();
}

std::vector<std::string> changes_in_run(const std::string& path) {
  std::vector<std::string> out;
  try {
    for (const json& change : config_json(path).value("changed", json::array())) {
      int64_t epoch = 0;
      JsonFields(change, "changed", JsonFields::Kind::state).integer("epoch", epoch, {0, 1e6});
      for (const auto& [key, value] : change.at("from").items())
        out.push_back(fmt::format("after epoch {}: {} was {}", epoch, key, value_text(value)));
    }
  } catch (const std::exception&) {
    // read_run names what is wrong
  }
  return out;
}

}  // namespace orthobatch
