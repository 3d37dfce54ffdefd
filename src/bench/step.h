#pragma once
// The step section: a whole training step of the paper's nets, ours against torch's modules.

#include <string>
#include <vector>

#include "bench/timing.h"

namespace orthobatch::bench {

struct StepTimes {
  std::string name;
  Times times;
  double images_per_second = 0;  ///< by the median
};

struct StepResult {
  std::string data;  ///< whose net: mnist or svhn
  int64_t batch;
  /// The net of torch's modules with BatchNorm2d; ours with BN; ours with ZCA in every block.
  std::vector<StepTimes> rows;
};

constexpr const char* torch_net = "torch, BatchNorm2d";
constexpr const char* bn_net = "ours, BN";
constexpr const char* zca_net = "ours, ZCA(1e-5,1e12)";

/// Forward, loss, backward and SGD step, channels last.
StepResult measure_step(const std::string& data, int64_t batch, const Session& session);

}  // namespace orthobatch::bench
