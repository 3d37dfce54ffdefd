#include "report/run_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "experiment/reproduce.h"
#include "io/file.h"
#include "io/json_depth.h"
#include "train/config.h"

namespace orthobatch {
namespace {

using nlohmann::json;

constexpr uint64_t largest_file = uint64_t{1} << 28;

/// No object where the text is damaged.
json parsed(const std::string& text) {
  if (json_depth(text) > largest_json_depth) return nullptr;
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// What stands in place of a number, no more of it than fits a line.
std::string brief(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  if (value.is_string() && value.get_ref<const std::string&>().size() > 40) return "a long text";
  return value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

/// A number of a line; throws std::invalid_argument that says what stands there instead.
double number(const json& object, const char* key, double low, double high) {
  const json found = object.contains(key) ? object.at(key) : json();
  if (!found.is_number())
    throw std::invalid_argument(fmt::format("{}: expected a number, found {}", key,
                                            object.contains(key) ? brief(found) : "nothing"));
  const double x = found.get<double>();
  if (!(x >= low && x <= high))
    throw std::invalid_argument(
        fmt::format("{}: expected {} to {}, found {}", key, low, high, found.dump()));
  return x;
}

constexpr double no_limit = 1e300;

std::optional<double> number_or_null(const json& object, const char* key) {
  if (object.contains(key) && object.at(key).is_null()) return std::nullopt;
  return number(object, key, 0, no_limit);
}

LayerRecord read_layer(const json& object) {
  LayerRecord layer;
  if (object.contains("name") && object.at("name").is_string()) layer.name = object.at("name");
  layer.channels = static_cast<int64_t>(number(object, "channels", 1, 1e6));
  layer.condition_number = number_or_null(object, "condition_number");
  layer.effective_rank = number_or_null(object, "effective_rank");
  layer.floored = static_cast<int64_t>(number(object, "floored", 0, 1e6));
  layer.null = static_cast<int64_t>(number(object, "null", 0, 1e6));
  if (object.contains("exchanges"))
    layer.exchanges = static_cast<int64_t>(number(object, "exchanges", 0, 1e15));
  return layer;
}

std::vector<double> read_curve(const json& line) {
  std::vector<double> out;
  if (!line.contains("curve")) return out;
  const json& curve = line.at("curve");
  if (!curve.is_object() || !curve.contains("loss") || !curve.at("loss").is_array())
    throw std::invalid_argument("curve: expected a list \"loss\", found none");
  constexpr size_t most_points = 1000;
  for (const json& loss : curve.at("loss")) {
    if (!loss.is_number() || !(loss.get<double>() >= 0) || !(loss.get<double>() <= no_limit) ||
        out.size() == most_points)
      throw std::invalid_argument(
          fmt::format("curve: expected up to {} numbers, 0 or more, found {}", most_points,
                      out.size() == most_points ? "more" : loss.dump()));
    out.push_back(loss.get<double>());
  }
  return out;
}

EpochRecord read_epoch(const json& line) {
  EpochRecord e;
  e.epoch = static_cast<int64_t>(number(line, "epoch", 1, 1e6));
  e.train_loss = number(line, "train_loss", 0, no_limit);
  if (line.contains("steps")) e.steps = static_cast<int64_t>(number(line, "steps", 0, 1e12));
  e.curve = read_curve(line);
  e.train_error = number(line, "train_error_percent", 0, 100);
  e.test_error = number(line, "test_error_percent", 0, 100);
  e.test_loss = number_or_null(line, "test_loss");
  e.learning_rate = number(line, "learning_rate", 0, no_limit);
  e.batch = static_cast<int64_t>(number(line, "batch", 1, 1e9));
  if (!line.contains("time") || !line.at("time").is_object())
    throw std::invalid_argument("time: expected an object, found none");
  e.train_seconds = number(line.at("time"), "train_seconds", 0, no_limit);
  if (!line.contains("layers") || !line.at("layers").is_array())
    throw std::invalid_argument("layers: expected a list, found none");
  for (const json& layer : line.at("layers")) e.layers.push_back(read_layer(layer));
  return e;
}

void take_line(const json& line, RunRecord& run) {
  if (!line.is_object()) throw std::invalid_argument("expected an object, found damaged text");
  const int64_t before = run.epochs.empty() ? 0 : run.epochs.back().epoch;
  if (line.contains("diverged")) {
    const json& reason = line.at("diverged");
    run.diverged = {static_cast<int64_t>(number(line, "epoch", 1, 1e6)),
                    reason.is_string() ? reason.get<std::string>() : brief(reason)};
    return;
  }
  EpochRecord epoch = read_epoch(line);
  if (epoch.epoch <= before)
    throw std::invalid_argument(
        fmt::format("epoch: expected more than {}, found {}", before, epoch.epoch));
  run.epochs.push_back(std::move(epoch));
}

void read_metrics(const std::string& path, RunRecord& run) {
  std::istringstream lines(read_text(path, largest_file));
  int number = 0;
  for (std::string text; std::getline(lines, text);) {
    ++number;
    if (text.empty()) continue;
    try {
      take_line(parsed(text), run);
    } catch (const std::invalid_argument& error) {
      run.problems.push_back(fmt::format("metrics.jsonl, line {}: {}", number, error.what()));
    }
  }
  int64_t expected = 1;
  std::string missing;
  for (const EpochRecord& epoch : run.epochs) {
    const int64_t first = std::exchange(expected, epoch.epoch + 1), last = epoch.epoch - 1;
    if (first > last) continue;
    missing += missing.empty() ? "" : ", ";
    missing += first == last ? std::to_string(first) : fmt::format("{} to {}", first, last);
  }
  if (!missing.empty())
    run.problems.push_back("metrics.jsonl: nothing to read of epoch " + missing);
}

void read_config(const std::string& path, RunRecord& run) {
  const json object = parse_json(read_text(path), path);
  const TrainConfig config = config_from_json(object, path);
  run.data = config.data;
  run.layers = layers_text(config);
  nlohmann::ordered_json settings = deciding_settings(config);
  settings.erase("seed");
  run.settings = settings.dump();
  run.seed = config.seed;
  run.epochs_wanted = config.epochs;
  run.threads = config.threads;
  if (object.contains("found")) {
    run.train_images = static_cast<int64_t>(number(object.at("found"), "train_images", 0, 1e12));
    run.test_images = static_cast<int64_t>(number(object.at("found"), "test_images", 0, 1e12));
  }
}

void check_picture(const json& object, const char* text, std::initializer_list<const char*> sizes) {
  for (const char* size : sizes) number(object, size, 1, 1e6);
  if (!object.contains(text) || !object.at(text).is_string())
    throw std::invalid_argument(fmt::format("{}: expected a text, found none", text));
}

/// Throws std::invalid_argument unless the page can draw it.
void check_pictures(const json& pictures) {
  for (const char* key : {"layers", "filters", "samples"})
    if (!pictures.is_object() || !pictures.contains(key) || !pictures.at(key).is_structured())
      throw std::invalid_argument(fmt::format("expected '{}', found none", key));
  number(pictures, "epoch", 0, 1e6);
  number(pictures, "images", 0, 1e9);
  check_picture(pictures.at("filters"), "data", {"count", "height", "width", "channels"});
  check_picture(pictures.at("samples"), "data", {"columns", "height", "width", "channels"});
  for (const json& layer : pictures.at("layers"))
    for (const char* text : {"before", "after", "spec"}) check_picture(layer, text, {"channels"});
}

/// A message about a file, with its name in place of its path: a report does not say where it was
/// made.
std::string named(const std::string& message, const std::string& path) {
  const size_t name = path.find_last_of('/') + 1;
  return message.rfind(path, 0) == 0 ? message.substr(name) : path.substr(name) + ": " + message;
}

}  // namespace

const EpochRecord* RunRecord::best() const {
  const EpochRecord* best = nullptr;
  const auto loss = [](const EpochRecord& e) { return e.test_loss.value_or(INFINITY); };
  for (const EpochRecord& e : epochs)
    if (!best || e.test_error < best->test_error ||
        (e.test_error == best->test_error && loss(e) < loss(*best)))
      best = &e;
  return best;
}

RunRecord read_run(const std::string& path) {
  RunRecord run;
  run.path = path;
  using Reader = void (*)(const std::string&, RunRecord&);
  const std::pair<const char*, Reader> files[] = {{"config.json", read_config},
                                                  {"metrics.jsonl", read_metrics}};
  for (const auto& [name, read] : files) {
    const std::string file = join_path(path, name);
    if (!file_exists(file)) {
      run.problems.push_back(std::string(name) + ": there is none");
      continue;
    }
    run.there = true;
    try {
      read(file, run);
    } catch (const std::exception& error) {
      run.problems.push_back(named(error.what(), file));
    }
  }
  const std::string failure = join_path(path, failed_name);
  if (file_exists(failure)) {
    run.there = true;
    try {
      std::istringstream text(read_text(failure));
      while (run.failed.empty() && std::getline(text, run.failed)) continue;
      const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
      std::replace_if(run.failed.begin(), run.failed.end(), control, '?');  // terminals obey them
      if (run.failed.empty()) run.failed = "for a reason that was not written";
    } catch (const FileError&) {
      run.failed = "for a reason that cannot be read";
    }
  }
  return run;
}

json read_pictures(const std::string& path, std::vector<std::string>& problems) {
  const std::string file = join_path(path, pictures_name);
  if (!file_exists(file)) return nullptr;
  try {
    json pictures = parsed(read_text(file, largest_file));
    check_pictures(pictures);
    return pictures;
  } catch (const std::invalid_argument& error) {
    problems.push_back(fmt::format("pictures.json: {}", error.what()));
    return nullptr;
  } catch (const FileError& error) {
    problems.push_back(named(error.what(), file));
    return nullptr;
  }
}

}  // namespace orthobatch
