#pragma once
// What the layers' speed and memory should be, beside what was measured.

#include <optional>
#include <string>
#include <vector>

#include "bench/inference.h"
#include "bench/layers.h"
#include "bench/memory.h"
#include "bench/scaling.h"
#include "bench/step.h"

namespace orthobatch::bench {

/// Everything one run measured; a section that was left out is empty.
struct Results {
  std::vector<LayerResult> layers;
  std::vector<MemoryResult> memory;
  std::vector<StepResult> step;
  std::vector<InferenceResult> inference;
  std::vector<ScalingSeries> scaling;

  const LayerResult* find(const Shape& shape, Layout layout) const;
};

struct Bar {
  enum class Verdict { met, not_met, not_judged };

  std::string what;
  bool at_most = true;  ///< else at least
  double limit = 0;
  std::string unit;                    ///< empty: a ratio
  std::optional<double> median, best;  ///< from median times and from best times
  std::string where;                   ///< the worst place, or over what the mean was taken
  size_t measured = 0, needed = 0;     ///< places

  /// By the medians, and only where every place was measured.
  Verdict verdict() const;
};
const char* name_of(Bar::Verdict verdict);

std::vector<Bar> judge(const Results& results, int threads);

}  // namespace orthobatch::bench
