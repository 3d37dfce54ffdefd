#pragma once
// Clocks and the numbers made from them.

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace orthobatch::bench {

/// Ctrl-C during a measurement.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

/// What every section gets besides what it measures.
struct Session {
  int threads = 1;
  int64_t repeats = 1;
  const std::atomic<bool>& stop;
  /// Told before each round: what is measured, rounds done, rounds in all.
  std::function<void(const std::string& what, int64_t done, int64_t rounds)> progress;

  /// Throws Stopped after Ctrl-C.
  void check() const {
    if (stop) throw Stopped();
  }
};

/// Seconds on a clock that never goes back.
double now();

/// Milliseconds of some repeats.
struct Times {
  std::vector<double> each;

  double median() const;
  double best() const;
};

/// 0 for no values.
double geometric_mean(const std::vector<double>& values);

/// p of the power law y ~ x^p nearest in logarithms (least squares); two points or more.
double fitted_exponent(const std::vector<double>& x, const std::vector<double>& y);

/// Runs all of `work` in turn, `repeats` times over, so that noise meets all alike. The first round
/// is not counted where `warm_up` is set.
void interleave(const std::vector<std::function<void(bool counted)>>& work, const Session& session,
                int64_t repeats, bool warm_up, const std::string& what);

}  // namespace orthobatch::bench
