#pragma once

#include "nn/function.h"
#include "orthobatch/modules.h"

namespace orthobatch::nn {

/// One call of a layer in parts, for the layer itself and for what folds it into the next one:
/// checks and statistics when it is made, the output by whoever made it, then `finish`. Where that
/// throws, the running statistics are as before.
class LayerRun {
 public:
  LayerRun(BatchOrthoLayer& layer, const torch::Tensor& input, bool training);

  /// An input without samples: there is no map, and nothing to finish.
  bool empty() const { return !x_.defined(); }
  /// The input, dense.
  const torch::Tensor& x() const { return x_; }
  const LayerCall& call() const { return call_; }

  void finish(bool unfolded = false);

  /// The map of evaluation without an input. Throws where the layer keeps no running statistics.
  static LayerCall on_average(BatchOrthoLayer& layer);

 private:
  BatchOrthoLayer& layer_;
  torch::Tensor x_;
  LayerCall call_;
  bool on_batch_, update_running_;
};

}  // namespace orthobatch::nn
