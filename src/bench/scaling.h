#pragma once
// The scaling section: how the time of ZCA grows with channels and with samples.

#include <vector>

#include "bench/candidates.h"
#include "bench/shapes.h"
#include "bench/timing.h"

namespace orthobatch::bench {

struct ScalingSeries {
  enum class Over { channels, samples };

  Over over;
  std::vector<Shape> shapes;
  std::vector<PassTimes> times;  ///< of each shape

  /// p of time ~ N^p, or ~ M^p, over all of the series.
  double exponent(double (Times::*statistic)() const) const;
};

/// Over channels at fixed samples, and over samples at fixed channels; channels last, in turn.
/// `small` takes sizes that need a moment only.
std::vector<ScalingSeries> measure_scaling(const Session& session, bool small);

}  // namespace orthobatch::bench
