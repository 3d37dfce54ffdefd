#include "cli/train_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "cli/options.h"
#include "cli/reading.h"
#include "data/catalogue.h"
#include "io/file.h"
#include "io/json.h"
#include "run/names.h"
#include "run/origin.h"
#include "run/run_record.h"
#include "train/resume.h"

namespace orthobatch::cli {
namespace {

/// What is not set for a folder of images, from what is in it.
void add_own_defaults(const TrainArguments& a, nlohmann::json& json) {
  const std::string data = json.value("data", nlohmann::json()).is_string()
                               ? data::resolve_data(json.at("data").get<std::string>())
                               : "";
  if (!data::is_own_data(data)) return;
  json["data"] = data;
  if (!a.image_size.empty()) json["image_size"] = a.image_size;
  data::DataRequest request{data, a.data_dir};
  if (const auto size = json.find("image_size"); size != json.end() && size->is_string())
    request.image_size = size->get<std::string>();
  const auto subset = json.find("subset");
  if (subset != json.end() && subset->is_number_integer()) request.subset = subset->get<int64_t>();
  request.subset = a.subset.value_or(request.subset);
  request.follow_links = a.follow_links;
  request.threads = a.threads.value_or(all_threads());
  nlohmann::json all = run::own_defaults(look_at_data(request, {is_rank(), a.quiet, false}));
  all.merge_patch(json);
  json = std::move(all);
}

/// Whether a config is one by itself: then what was given beside it is at fault.
bool is_config(const nlohmann::json& json, const std::string& name) {
  try {
    run::TrainConfig config = run::config_from_json(json, name);
    run::use_all_threads(config);
    run::check_config(config);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// `file`: what --config names.
run::TrainConfig config_with(const TrainArguments& a, const nlohmann::json& file) {
  const std::string layer = a.layers.empty() ? "BN" : a.layers.front();
  run::TrainConfig config;
  const std::vector<run::Setting> settings = settings_of(a);
  const std::string data = a.data.empty() ? "mnist" : data::resolve_data(a.data);
  if (a.config.empty() && settings.empty() && !data::is_own_data(data)) {
    config = run::paper_config(data, layer);
  } else {
    nlohmann::json json = file;
    if (json.is_object()) {
      for (const run::Setting& setting : settings) run::apply_setting(setting, json);
      if (!a.data.empty()) json["data"] = data;
      add_own_defaults(a, json);
    }
    config = run::config_from_json(json, a.config.empty() ? "--set" : a.config);
  }
  if (a.layers.size() > 1 && a.layers.size() != config.net.blocks.size())
    throw std::invalid_argument(
        fmt::format("--layer: expected 1, or {} for the blocks of the net, found {}",
                    config.net.blocks.size(), a.layers.size()));
  if (!a.layers.empty())
    for (size_t i = 0; i < config.net.blocks.size(); ++i)
      config.net.blocks[i].layer = a.layers.size() > 1 ? a.layers[i] : layer;
  const auto set = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  if (!a.image_size.empty()) config.image_size = a.image_size;
  if (!a.head.empty()) config.net.head = run::parse_head(a.head, "--head");
  if (!a.padding.empty()) config.net.padding = run::parse_padding(a.padding, "--padding");
  set(a.epochs, config.epochs);
  set(a.target_error, config.stop.target_error);
  set(a.patience, config.stop.patience);
  set(a.subset, config.subset);
  set(a.seed, config.seed);
  set(a.batch, config.schedule.batch);
  set(a.learning_rate, config.schedule.learning_rate);
  set(a.momentum, config.schedule.momentum);
  set(a.threads, config.threads);
  set(a.augment_threads, config.augment_threads);
  config.schedule.final_momentum =
      std::min(config.schedule.final_momentum, config.schedule.momentum);
  if (const int processes = processes_asked_for(a.ranks)) config.processes = processes;
  run::use_all_threads(config, processes_here(a.ranks, config.processes));
  run::check_config(config);
  return config;
}

}  // namespace

std::vector<run::Setting> settings_of(const TrainArguments& a) {
  std::vector<run::Setting> out;
  for (const std::string& text : a.settings) out.push_back(run::parse_setting(text));
  return out;
}

run::TrainConfig config_of(const TrainArguments& a) {
  nlohmann::json file = nlohmann::json::object();
  if (!a.config.empty()) file = io::parse_json(io::read_input(a.config), a.config);
  try {
    return config_with(a, file);
  } catch (const std::invalid_argument& error) {
    if (a.config.empty() || is_config(file, a.config)) throw UsageError(error.what());
    throw;
  }
}

std::vector<run::Setting> changes_of(const TrainArguments& a, int processes) {
  std::vector<run::Setting> changes = settings_of(a);
  if (a.epochs) changes.push_back({"epochs", *a.epochs});
  if (a.target_error) changes.push_back({"stop.target_error", *a.target_error});
  if (a.patience) changes.push_back({"stop.patience", *a.patience});
  if (a.threads) changes.push_back({"threads", *a.threads});
  changes.push_back({"processes", processes});
  if (!a.threads && processes != run::read_run(a.resume).processes) {
    run::TrainConfig own;
    run::use_all_threads(own, processes_here(a.ranks, processes));
    changes.push_back({"threads", own.threads});
  }
  return changes;
}

run::TrainConfig config_of_old(const TrainArguments& a, int processes) {
  const std::string path = io::join_path(a.resume, run::config_name);
  const nlohmann::json old = io::parse_json(io::read_text(path), path);
  try {
    run::TrainConfig config = train::config_with(old, changes_of(a, processes), path);
    run::require_named_or_made_here(path, config.data, run::origin_in(old), !a.data_dir.empty());
    return config;
  } catch (const std::invalid_argument& error) {
    if (is_config(old, path)) throw UsageError(error.what());
    throw;
  }
}

}  // namespace orthobatch::cli
