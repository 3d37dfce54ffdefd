#include "nn/layer_run.h"

#include "nn/layer_call.h"

namespace orthobatch::nn {

LayerRun::LayerRun(BatchOrthoLayer& layer, const torch::Tensor& input, bool training)
    : layer_(layer),
      on_batch_(training || !layer.running_mean.defined()),
      update_running_(training && layer.running_mean.defined()) {
  const Callee callee = layer.callee();
  check_rank(callee, input);
  layer.check_state();
  check_input(callee, input, {layer.weight, layer.bias, layer.skew, layer.running_mean});
  if (on_batch_) check_samples(callee, input, layer.sampling());
  const bool with_others = on_batch_ && layer.options.process_group();
  if (input.numel() == 0 && !with_others) return;
  if (update_running_) check_momentum(layer.options.momentum(), layer.description());
  x_ = kernels::dense_layout(input);
  call_ = on_batch_ ? layer.call_on_batch(x_) : layer.call_on_average();
}

void LayerRun::finish(bool unfolded) {
  if (on_batch_) layer_.take_batch(*call_.fold, update_running_, unfolded);
}

LayerCall LayerRun::on_average(BatchOrthoLayer& layer) {
  TORCH_CHECK(layer.running_mean.defined(), layer.description(),
              ": expected running statistics, but it keeps none: its output depends on the batch");
  layer.check_state();
  return layer.call_on_average();
}

}  // namespace orthobatch::nn
