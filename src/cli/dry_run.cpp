#include "cli/dry_run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "data/catalogue.h"
#include "io/file.h"
#include "orthobatch/version.h"

namespace orthobatch::cli {

void check_training(const TrainConfig& config, const DataSet& data) {
  map_sizes(config.net, data.train.height, data.train.width);
  const int64_t batch = std::min(config.schedule.batch, data.train.count());
  if (batch < config.processes)
    throw std::invalid_argument(
        fmt::format("expected an image of a batch for each of {} processes, found {} images in all",
                    config.processes, data.train.count()));
}

void check_place_of_run(const std::string& path) {
  std::string there = path;
  while (!file_exists(there) && parent_path(there) != there) there = parent_path(there);
  if (!std::filesystem::is_directory(there))
    throw FileError(there, "folder", fmt::format("one for the run {}", path), "a file");
  if (::access(there.c_str(), W_OK | X_OK) != 0)
    throw FileError(path, fmt::format("cannot write in {}", there), errno);
}

void print_config(const TrainConfig& config) {
  nlohmann::ordered_json text = {{"version", ORTHOBATCH_VERSION}};
  text.update(to_json(config));
  fmt::print("{}\n", text.dump(2));
}

}  // namespace orthobatch::cli
