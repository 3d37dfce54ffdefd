#pragma once
// Where a run stands, and its text in a checkpoint.

#include <cstdint>
#include <string>
#include <vector>

#include "run/epoch_record.h"
#include "train/schedule.h"

namespace orthobatch::train {

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

/// Where a run stands. What its epochs came to is in metrics.jsonl.
struct TrainState {
  int64_t epoch = 0;        ///< epochs finished
  std::string metrics_md5;  ///< of their lines in metrics.jsonl
  // Of the epoch under way:
  int64_t step = 0, images = 0, wrong = 0;
  double loss_sum = 0;
  double seconds = 0, waited = 0;
  std::vector<run::LayerRecord> layers;  ///< after its last step; empty before
  std::vector<int64_t> exchanges;        ///< of pivots, by layer, in all its steps so far
  LossCurve curve;

  Schedule::State schedule;
  BestEpoch best;
};

std::string state_text(const TrainState& state);

/// The state that a run with these settings and so many training images left. Throws
/// std::invalid_argument that names the member that is not there, out of range, or at odds with the
/// others.
TrainState parse_state(const std::string& text, const run::TrainConfig& config,
                       int64_t train_images);

}  // namespace orthobatch::train
