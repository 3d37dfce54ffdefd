#pragma once
// The step section: a whole training step of the paper's nets, and of a stack of ResNet's widths,
// ours against torch's modules.

#include <string>
#include <vector>

#include "bench/timing.h"

namespace orthobatch::bench {

struct StepTimes {
  std::string name;
  Times times;
  double images_per_second = 0;  ///< by the median
  int64_t peak_bytes = 0;        ///< of tensors during a step, beyond those there before it
};

struct StepResult {
  std::string data;  ///< whose net: mnist, svhn or stack
  int64_t batch;
  std::vector<StepTimes> rows;  ///< torch's net first

  const StepTimes* find(const std::string& name) const;
};

constexpr const char* stack = "stack";

// The nets. The first is the best that a user of torch would write: ReLU in place, channels last.
constexpr const char* torch_net = "torch, BatchNorm2d";
constexpr const char* bn_net = "ours, BN";
constexpr const char* unfolded_net = "ours, ZCA, not folded";
constexpr const char* folded_net = "ours, ZCA, folded";
constexpr const char* stride_2_net = "ours, ZCA, folded, sample_stride 2";
constexpr const char* stride_3_net = "ours, ZCA, folded, sample_stride 3";

/// Forward, loss, backward and SGD step, channels last. `data` is mnist or svhn: the paper's net
/// with ZCA(1e-5,1e12) in every block; or "stack": the widths of ResNet-18, 3×3 convolutions to 64,
/// 64, 128, 128, 256, 256, 512 and 512 channels on maps of 32×32 places down to 4×4, each behind a
/// layer of ZCA(1e-5,group_size=64), ReLU behind each.
StepResult measure_step(const std::string& data, int64_t batch, const Session& session);

}  // namespace orthobatch::bench
