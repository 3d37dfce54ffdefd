#pragma once
// Everything a run is made from: config.json, the defaults of the paper, and the checks on both.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "data/augment.h"
#include "train/schedule.h"

namespace orthobatch {

/// C(fov, stride, ·, channels): convolution, ReLU, the layer.
struct BlockConfig {
  int64_t fov = 3;
  int64_t stride = 1;
  int64_t channels = 0;
  std::string layer = "BN";  ///< a layer spec
};

struct TrainConfig {
  std::string data;    ///< mnist, svhn, svhn-train or synthetic
  int64_t subset = 0;  ///< only the first so many training images; 0: all
  Augmentation augment;
  std::vector<BlockConfig> blocks;
  ScheduleRules schedule;
  int64_t epochs = 25;
  uint64_t seed = 1;
  int threads = 0;  ///< of the training step; 0: as many as the machine has
  int augment_threads = 1;
  /// Before an evaluation the layers' running statistics are taken anew over so many training
  /// images, not augmented, with the weights of the moment; 0: as the running average left them.
  int64_t refresh_images = 5000;
  double checkpoint_minutes =
      10;  ///< between checkpoints inside an epoch; each epoch ends with one
};

/// The paper's column for a data set: nets, rules, augmentation. `layer` in every block.
TrainConfig paper_config(const std::string& data, const std::string& layer);

/// A config, or the part of one that differs from the paper's, as read from JSON. `name` is what
/// messages call its source. A key that does not exist, a wrong type or a number out of range is an
/// error (std::invalid_argument) that names the key.
TrainConfig config_from_json(const nlohmann::json& json, const std::string& name);

/// All of it; config_from_json gives it back.
nlohmann::ordered_json to_json(const TrainConfig& config);

/// Throws std::invalid_argument or SpecError where something is out of range. Specs become
/// canonical.
void check_config(TrainConfig& config);

/// The layer specs, once where all blocks have the same: "ZCA(1e-5,1e12)", "BN | BN | ZCA(1e-5)".
std::string layers_text(const TrainConfig& config);

/// Parses JSON text; the error names `name`, line and column.
nlohmann::json parse_json(const std::string& text, const std::string& name);

}  // namespace orthobatch
