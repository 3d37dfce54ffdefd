#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "ops/torch_versions.h"
#include "ranks/ranks.h"

namespace orthobatch::train {

/// The parameters' gradients summed over ranks, in buckets that go out while the backward pass
/// makes the next ones. The gradients are views of the buckets: whoever clears them calls `begin`.
class GradientSum {
 public:
  static constexpr int64_t usual_bucket = 256 << 10;  ///< bytes
  /// `ranks` must outlive it; the parameters are dense, of one type.
  GradientSum(const std::vector<torch::Tensor>& parameters, ranks::Ranks& ranks,
              int64_t bucket_bytes = usual_bucket);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// Before a backward pass: all gradients 0.
  void begin();
  /// After it: waits until all gradients are sums.
  void finish();

  size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    torch::Tensor values;
    int64_t parameters = 0, missing = 0;
    std::function<void()> sum;  ///< to wait for, once it is under way
  };
  void made(size_t bucket);
  /// In the same order on all ranks.
  void send_those_made();

  ranks::Ranks& ranks_;
  std::vector<Bucket> buckets_;
  size_t sent_ = 0;
  std::vector<NodePointer> accumulators_;  ///< theirs are the hooks
  std::shared_ptr<GradientSum*> self_;                                ///< null when it is gone
};

}  // namespace orthobatch::train
