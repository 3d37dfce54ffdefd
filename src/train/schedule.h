#pragma once
// The paper's rules for learning rate, batch size and momentum, as a function of the training loss.

#include <cstdint>
#include <optional>
#include <string>

#include "run/config.h"
#include "run/epoch_record.h"

namespace orthobatch::train {

/// Its whole state is public numbers, so that a run can be taken up again.
class Schedule {
 public:
  explicit Schedule(const run::ScheduleRules& rules);

  const run::StepSettings& now() const { return now_; }

  /// Takes the number, from 1, and the mean training loss of the epoch that ended and moves on to
  /// the next.
  run::Decision finish_epoch(int64_t epoch, double training_loss);

  struct State {
    run::StepSettings now;
    std::optional<double> lowest_loss;  ///< of the epochs so far
    int64_t slow_count = 0;             ///< epochs in a row without enough improvement
  };
  State state() const { return {now_, lowest_loss_, slow_count_}; }
  void restore(const State& state);

 private:
  std::string slow_down();

  run::ScheduleRules rules_;
  run::StepSettings now_;
  std::optional<double> lowest_loss_;
  int64_t slow_count_ = 0;
};

}  // namespace orthobatch::train
