#pragma once
// The paper's rules for learning rate, batch size and momentum, as a function of the training loss.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace orthobatch {

constexpr int64_t largest_batch = 1'000'000'000;

/// Numbers of the rules; the defaults are those of the paper's MNIST column.
struct ScheduleRules {
  double learning_rate = 0.125;
  double momentum = 0.9;
  double weight_decay = 0;
  int64_t batch = 256;

  /// Learning slows when the mean training loss of an epoch is not lower than the lowest one before
  /// it by this fraction …
  double slow_improvement = 0.1;
  /// … for this many epochs in a row.
  int64_t slow_epochs = 2;

  /// Then, below `max_batch`, the batch doubles and the learning rate takes this factor …
  int64_t max_batch = 2048;
  double growing_factor = 0.75;
  /// … and at `max_batch` the learning rate takes this one, down to `min_learning_rate`, and the
  /// momentum becomes `final_momentum`.
  double final_factor = 0.5;
  double final_momentum = 0.9;
  double min_learning_rate = 1e-5;

  /// The running average of the layers' statistics keeps the fraction α of itself at each step:
  /// 1 − α starts at 1 − alpha_start and takes the factor alpha_decay after each epoch, until α is
  /// alpha_end.
  double alpha_start = 0.9;
  double alpha_decay = 0.95;
  double alpha_end = 0.98;
};

/// Throws std::invalid_argument that names the number that is out of range.
void check_rules(const ScheduleRules& rules);

/// What a training step uses.
struct StepSettings {
  double learning_rate = 0, momentum = 0, alpha = 0;
  int64_t batch = 0;
};

/// What was decided after an epoch, and why.
struct Decision {
  bool slow = false;   ///< whether learning slowed
  std::string action;  ///< "batch 256 -> 512, learning rate 0.125 -> 0.09375"; "none"
  std::string reason;  ///< the numbers compared
};

/// Its whole state is public numbers, so that a run can be taken up again.
class Schedule {
 public:
  explicit Schedule(const ScheduleRules& rules);

  const StepSettings& now() const { return now_; }

  /// Takes the mean training loss of the epoch that ended and moves on to the next.
  Decision finish_epoch(double training_loss);

  struct State {
    StepSettings now;
    std::optional<double> lowest_loss;  ///< of the epochs so far
    int64_t slow_count = 0;             ///< epochs in a row without enough improvement
  };
  State state() const { return {now_, lowest_loss_, slow_count_}; }
  void restore(const State& state);

 private:
  std::string slow_down();

  ScheduleRules rules_;
  StepSettings now_;
  std::optional<double> lowest_loss_;
  int64_t slow_count_ = 0;
};

}  // namespace orthobatch
