// A folder as `orthobatch reproduce` leaves one after all epochs of every row, with numbers made up
// by a rule: the browser test needs a full page, not a trained net.
//   make_folder FOLDER EXPERIMENT EPOCHS

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/random.h"
#include "io/base64.h"
#include "io/file.h"
#include "run/experiment.h"
#include "run/names.h"
#include "run/run_record.h"

namespace orthobatch {
namespace {

using nlohmann::ordered_json;

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

std::vector<LayerRecord> layers_of(const ExperimentRow& row, Random& random) {
  std::vector<LayerRecord> layers;
  for (const BlockConfig& block : row.config.net.blocks) {
    const auto i = static_cast<int64_t>(layers.size());
    LayerRecord layer;
    layer.name = "block" + std::to_string(i + 1) + ".norm";
    layer.spec = block.layer;
    layer.channels = block.channels;
    if (random.uniform() >= 0.02)
      layer.condition_number = std::pow(10, 2 + static_cast<double>(i) + random.uniform());
    layer.effective_rank = static_cast<double>(block.channels) * random.uniform(0.3, 0.6);
    layer.exchanges = starts_with(block.layer, "PLDLP") ? 100 * i : 0;
    layers.push_back(layer);
  }
  return layers;
}

EpochRecord epoch_of(const ExperimentRow& row, int64_t number, double test_error, Random& random) {
  EpochRecord e;
  e.epoch = number;
  e.steps = 100;
  e.images = 25600;
  e.settings = {0.125, 0.9, 0.9, 256};
  e.train_loss = test_error / 25;
  e.curve_every = 10;
  for (int i = 0; i < 10; ++i) e.curve.push_back(e.train_loss * (1.3 - 0.05 * i));
  e.train_error_percent = 1.2 * test_error;
  e.test = {test_error, test_error / 26};
  e.layers = layers_of(row, random);
  e.time.finished = "2000-01-01T00:00:00Z";
  e.time.train_seconds = 20 * random.uniform(1, 1.4);
  e.time.test_seconds = 3;
  return e;
}

/// PCA diverges in its third epoch.
std::string metrics_of(const ExperimentRow& row, Random& random) {
  const double floor = row.paper.error_percent.value_or(30) * random.uniform(1, 1.2);
  const double speed = random.uniform(0.8, 1.8);
  std::string lines;
  for (int64_t number = 1; number <= row.config.epochs; ++number) {
    const double error =
        floor + 60 * std::exp(-speed * static_cast<double>(number)) + random.uniform(0, 0.3);
    EpochRecord e = epoch_of(row, number, error, random);
    if (starts_with(row.name, "PCA") && number == 3) e.diverged = "loss nan";
    lines += to_json(e).dump() + "\n";
    if (e.diverged) break;
  }
  return lines;
}

std::string noise(int64_t count, Random& random) {
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(random.below(256)));
  return base64(bytes);
}

/// The upper triangle of a correlation matrix, its entries up to `spread`.
std::string triangle(int64_t n, double spread, Random& random) {
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i; j < n; ++j)
      bytes.push_back(
          i == j ? 255
                 : static_cast<uint8_t>(128 + std::lround(127 * spread * random.uniform(-1, 1))));
  return base64(bytes);
}

ordered_json pictures_of(const ExperimentRow& row, Random& random) {
  const bool mnist = row.config.data == "mnist";
  const int64_t side = mnist ? 28 : 32, colours = mnist ? 1 : 3;
  const double spread_after = starts_with(row.name, "BN") ? 0.7 : 0.05;
  const std::vector<BlockConfig>& blocks = row.config.net.blocks;
  ordered_json layers = ordered_json::array();
  for (const BlockConfig& block : blocks)
    layers.push_back({{"spec", block.layer},
                      {"channels", block.channels},
                      {"before", triangle(block.channels, 0.7, random)},
                      {"after", triangle(block.channels, spread_after, random)}});
  return {{"epoch", 20},
          {"images", 500},
          {"layers", layers},
          {"filters",
           {{"count", blocks[0].channels},
            {"height", 3},
            {"width", 3},
            {"channels", colours},
            {"scale", 1},
            {"data", noise(blocks[0].channels * 9 * colours, random)}}},
          {"samples",
           {{"columns", 5},
            {"height", side},
            {"width", side},
            {"channels", colours},
            {"data", noise(50 * side * side * colours, random)}}}};
}

void make_run(const std::string& path, const ExperimentRow& row, uint64_t seed, Random& random) {
  TrainConfig config = row.config;
  config.seed = seed;
  config.threads = 2;
  ordered_json described = to_json(config);
  described["found"] = {{"train_images", 36000}, {"test_images", 26032}};
  make_directories(path);
  write_file(join_path(path, config_name), described.dump());
  write_file(join_path(path, metrics_name), metrics_of(row, random));
  if (seed == row.seeds.front())
    write_file(join_path(path, pictures_name), pictures_of(row, random).dump());
}

void make_folder(const std::string& folder, const std::string& name, int64_t epochs) {
  Experiment experiment = find_experiment(name);
  ExperimentChanges changes;
  changes.epochs = epochs;
  apply(changes, experiment);
  ordered_json described = to_json(experiment);
  described["made"] = {{"command", "orthobatch reproduce " + name + " --out DIR"},
                       {"with", {{"orthobatch", "test"}, {"processor", "none"}}}};
  make_directories(folder);
  write_file(join_path(folder, name + experiment_suffix), described.dump());
  Random random(7);
  for (const ExperimentRow& row : experiment.rows)
    for (const uint64_t seed : row.seeds)
      make_run(run_folder_path(folder, row, seed), row, seed, random);
}

}  // namespace
}  // namespace orthobatch

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  orthobatch::make_folder(argv[1], argv[2], std::atoll(argv[3]));
  return 0;
}
