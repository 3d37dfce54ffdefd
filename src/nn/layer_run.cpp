#include "nn/layer_run.h"

namespace orthobatch::nn {

LayerRun::LayerRun(BatchOrthoLayer& layer, const torch::Tensor& input, bool training)
    : layer_(layer),
      on_batch_(training || !layer.running_mean.defined()),
      update_running_(training && layer.running_mean.defined()) {
  layer.check_rank(input);
  layer.check_state();
  layer.check_input(input, on_batch_);
  if (input.numel() == 0) return;
  if (update_running_) layer.check_momentum(layer.description());
  x_ = kernels::dense_layout(input);
  call_ = on_batch_ ? layer.call_on_batch(x_) : layer.call_on_average();
}

void LayerRun::finish(bool unfolded) {
  if (on_batch_) layer_.take_batch(*call_.fold, update_running_, unfolded);
}

}  // namespace orthobatch::nn
