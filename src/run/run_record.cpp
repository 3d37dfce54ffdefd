#include "run/run_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "data/catalogue.h"
#include "io/file.h"
#include "io/json_fields.h"
#include "run/config.h"
#include "run/names.h"

namespace orthobatch::run {
namespace {

using nlohmann::json;

constexpr uint64_t largest_file = uint64_t{1} << 28;

void take_line(const json& line, RunRecord& run) {
  EpochRecord epoch = epoch_from_json(line);
  if (epoch.diverged) {
    run.diverged = {epoch.epoch, *epoch.diverged};
    return;
  }
  const int64_t before = run.epochs.empty() ? 0 : run.epochs.back().epoch;
  if (epoch.epoch <= before)
    throw std::invalid_argument(
        fmt::format("epoch: expected more than {}, found {}", before, epoch.epoch));
  run.epochs.push_back(std::move(epoch));
}

void read_metrics(const std::string& path, RunRecord& run) {
  std::istringstream lines(io::read_text(path, largest_file));
  int number = 0;
  for (std::string text; std::getline(lines, text);) {
    ++number;
    if (text.empty()) continue;
    try {
      take_line(io::parse_json_or_null(text), run);
    } catch (const std::invalid_argument& error) {
      run.problems.push_back(fmt::format("{}, line {}: {}", metrics_name, number, error.what()));
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
    run.problems.push_back(fmt::format("{}: epoch {} is missing", metrics_name, missing));
}

void read_config(const std::string& path, RunRecord& run) {
  const json object = io::parse_json(io::read_text(path), path);
  const TrainConfig config = config_from_json(object, path);
  run.data = data::data_title(config.data);
  run.layers = layers_text(config);
  nlohmann::ordered_json settings = deciding_settings(config);
  settings.erase("seed");
  run.settings = settings.dump();
  run.seed = config.seed;
  run.epochs_wanted = config.epochs;
  run.stop = config.stop;
  run.threads = config.threads;
  run.processes = config.processes;
  io::JsonFields fields(object, "", io::JsonFields::Kind::record);
  fields.group("found", [&](auto& g) {
    g.integer("train_images", run.train_images, {0, most_images});
    g.integer("test_images", run.test_images, {0, most_images});
    g.require({"train_images", "test_images"});
  });
}

/// Throws std::invalid_argument unless the page can draw it.
void check_pictures(const json& pictures) {
  const auto require = [](io::JsonFields& f, std::initializer_list<const char*> sizes,
                          std::initializer_list<const char*> texts) {
    double size = 0;
    std::string text;
    for (const char* key : sizes) f.number(key, size, {1, 1e6});
    for (const char* key : texts) f.text(key, text);
  };
  io::JsonFields f(pictures, "", io::JsonFields::Kind::state);
  double number = 0;
  f.number("epoch", number, {0, 1e6});
  f.number("images", number, {0, 1e9});
  f.group("filters", [&](auto& g) {
    require(g, {"count", "height", "width", "channels"}, {"data"});
  });
  f.group("samples", [&](auto& g) {
    require(g, {"columns", "height", "width", "channels"}, {"data"});
  });
  std::vector<int> layers;
  f.list("layers", layers, 0, [&](auto&, auto& g) {
    require(g, {"channels"}, {"before", "after", "spec"});
  });
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
  for (const EpochRecord& e : epochs)
    if (!best || better(e.test, best->test)) best = &e;
  return best;
}

std::optional<double> RunRecord::seconds_per_epoch() const {
  std::vector<double> seconds;
  for (const EpochRecord& e : epochs) seconds.push_back(e.time.train_seconds);
  if (seconds.empty()) return std::nullopt;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

bool RunRecord::steady() const {
  const auto [least, most] = std::minmax_element(
      epochs.begin(), epochs.end(), [](const EpochRecord& a, const EpochRecord& b) {
        return a.time.train_seconds < b.time.train_seconds;
      });
  return least != epochs.end() &&
         most->time.train_seconds <= steady_ratio * least->time.train_seconds;
}

bool is_run(const std::string& folder) {
  return io::file_exists(io::join_path(folder, config_name)) ||
         io::file_exists(io::join_path(folder, metrics_name));
}

std::string missing_problem(const std::string& name) { return name + ": there is none"; }

RunRecord read_run(const std::string& path) {
  RunRecord run;
  run.path = path;
  run.there = is_run(path);
  using Reader = void (*)(const std::string&, RunRecord&);
  const std::pair<const char*, Reader> files[] = {{config_name, read_config},
                                                  {metrics_name, read_metrics}};
  for (const auto& [name, read] : files) {
    const std::string file = io::join_path(path, name);
    if (!io::file_exists(file)) {
      run.problems.push_back(missing_problem(name));
      continue;
    }
    try {
      read(file, run);
    } catch (const std::exception& error) {
      run.problems.push_back(named(error.what(), file));
    }
  }
  if (!run.last() || run.last()->epoch < run.epochs_wanted)
    run.stopped_early = stop_reason(run.stop, run.epochs);
  const std::string failure = io::join_path(path, failed_name);
  if (io::file_exists(failure)) {
    run.there = true;
    try {
      std::istringstream text(io::read_text(failure));
      while (run.failed.empty() && std::getline(text, run.failed)) continue;
      run.failed = base::printable(run.failed);
      if (run.failed.empty()) run.failed = "no reason was written";
    } catch (const io::FileError&) {
      run.failed = "the reason cannot be read";
    }
  }
  return run;
}

json read_pictures(const std::string& path, std::vector<std::string>& problems) {
  const std::string file = io::join_path(path, pictures_name);
  if (!io::file_exists(file)) return nullptr;
  try {
    json pictures = io::parse_json_or_null(io::read_text(file, largest_file));
    check_pictures(pictures);
    return pictures;
  } catch (const std::invalid_argument& error) {
    problems.push_back(fmt::format("{}: {}", pictures_name, error.what()));
    return nullptr;
  } catch (const io::FileError& error) {
    problems.push_back(named(error.what(), file));
    return nullptr;
  }
}

}  // namespace orthobatch::run
