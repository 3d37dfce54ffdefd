#pragma once

#include <cstdint>
#include <string>

namespace orthobatch::train {

/// What is told of a training while it goes on. As it is, nothing is shown.
class Progress {
 public:
  virtual ~Progress() = default;

  /// A line that stays.
  virtual void line(const std::string& /*text*/) {}

  /// How far the epoch is.
  struct Moment {
    int64_t epoch, epochs, step, steps;
    double images_per_second, loss, error_percent, seconds_left_epoch, seconds_left;
    double seconds_epoch;  ///< of a whole epoch, as it looks now
  };
  virtual void update(const Moment& /*moment*/) {}

  /// For a run that is one of several.
  struct Overall {
    int64_t run, runs;
    double epochs_after;   ///< of the runs to come; fewer where other processes share them
    double seconds_epoch;  ///< as the runs before took; 0: as this one takes
  };
  virtual void set_overall(const Overall& /*overall*/) {}

  /// Takes away what does not stay.
  virtual void clear() {}
};

}  // namespace orthobatch::train
