#pragma once
// Everything a run needs to go on exactly where it was, in one file.

#include <torch/optim/sgd.h>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "run/schedule.h"
#include "train/net.h"

namespace orthobatch {

/// The best epoch so far: least test error, then least test loss.
struct BestEpoch {
  int64_t epoch = 0;  ///< 0: none yet
  double test_error_percent = 0, test_loss = 0;
};

/// The training loss inside an epoch: the mean over each `every` steps.
struct LossCurve {
  int64_t every = 0;  ///< 0: not begun
  std::vector<double> loss;
  double sum = 0;  ///< of the steps since the last one
  int64_t steps = 0;

  void add(double value, int64_t steps_in_epoch);
};

/// Where a run stands.
struct TrainState {
  int64_t epoch = 0;  ///< epochs finished
  // Of the epoch under way:
  int64_t step = 0, images = 0, wrong = 0;
  double loss_sum = 0;
  double seconds = 0, waited = 0;
  nlohmann::ordered_json layers;   ///< summary after its last step; null before
  std::vector<int64_t> exchanges;  ///< of pivots, by layer, in all its steps so far
  LossCurve curve;

  Schedule::State schedule;
  BestEpoch best;
  nlohmann::ordered_json history = nlohmann::ordered_json::array();  ///< the lines of metrics.jsonl
};

/// What a checkpoint says of itself, before a net is built for it.
struct CheckpointHeader {
  nlohmann::json config;  ///< as in config.json
  TrainState state;
};

/// Writes net, optimizer and state at once or not at all. `config` is the text of config.json.
void save_checkpoint(const std::string& path, const std::string& config, const TrainState& state,
                     DigitNet& net, const torch::optim::SGD& optimizer);

/// Throws FileError for a file that is damaged or is no checkpoint of ours.
CheckpointHeader read_checkpoint_header(const std::string& path);

/// Loads weights and statistics into a net of the same shape, and the optimizer where given;
/// throws FileError where they do not fit or are damaged.
void load_checkpoint(const std::string& path, DigitNet& net, torch::optim::SGD* optimizer);

}  // namespace orthobatch
