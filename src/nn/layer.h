#pragma once
// A layer's module and the operators that it calls.

#include "ops/consumer.h"
#include "ops/layer.h"
#include "orthobatch/modules.h"

namespace orthobatch {

/// What a module keeps that is none of its user's business.
struct BatchOrthoLayer::Own {
  int64_t dims;
  torch::Tensor tape;  // of the last batch in training
  int64_t unfolded = 0;
  bool warned = false;
  std::vector<torch::Tensor*> stopped;  // parameters that `freeze` stopped
  ops::Layer layer;                     // as of the last call, with its text
  std::string text;
};

namespace nn {

/// What consumes a layer's output, where that is folded; undefined weight: nothing.
struct Consumed {
  torch::Tensor read, weight, bias;
  std::vector<int64_t> convolution;  // packed; empty: a linear layer
};

struct Access {
  static torch::Tensor run(BatchOrthoLayer& layer, const torch::Tensor& x, bool training,
                           const Consumed& consumed = {});
  /// The map of evaluation, as operators hand it on. Throws where there are no running statistics.
  static std::vector<torch::Tensor> average_map(BatchOrthoLayer& layer);
  static std::vector<torch::Tensor*>& stopped(BatchOrthoLayer& layer) {
    return layer.own_->stopped;
  }
  /// The layer as operators know it.
  static const std::string& text(const BatchOrthoLayer& layer);

 private:
  static void take_note(BatchOrthoLayer& layer, const torch::Tensor& tape);
};

}  // namespace nn
}  // namespace orthobatch
