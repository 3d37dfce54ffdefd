#include "nn/function.h"

#include "kernels/passes.h"
#include "nn/autograd.h"
#include "nn/sampling.h"

namespace orthobatch::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Pᵀ G + Q (X − center) + offset, the latter two at the places of the statistics.
torch::Tensor input_gradient(const torch::Tensor& g, const torch::Tensor& x, const LayerCall& call,
                             const core::GradientMap& map) {
  const kernels::Passes& passes = kernels::passes_for(x);
  if (call.sample_stride == 1 || map.Q.empty()) return passes.input_gradient(g, x, map);
  torch::Tensor dx = passes.input_gradient(g, x, core::gradient_map(call.fold->map));
  add_statistics_gradient(dx, x, map, call.sample_stride);
  return dx;
}

class LayerFunction : public torch::autograd::Function<LayerFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& skew, LayerCall call) {
    const torch::Tensor z = kernels::passes_for(x).transform(x, call.fold->map);
    ctx->save_for_backward({x, weight, bias, skew});
    keep(ctx, std::move(call));
    return z;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    const LayerCall& call = kept<LayerCall>(ctx);
    const variable_list tensors = ctx->get_saved_variables();
    const torch::Tensor &x = tensors[0], &weight = tensors[1], &bias = tensors[2],
                        &skew = tensors[3];
    const torch::Tensor g = kernels::same_layout(grad_outputs[0].detach(), x);
    const core::LayerAlgebra::Wanted wanted = {
        ctx->needs_input_grad(1) || ctx->needs_input_grad(2) || ctx->needs_input_grad(3),
        ctx->needs_input_grad(0)};

    const kernels::Passes& passes = kernels::passes_for(x);
    const core::AffineMap& map = call.fold->map;
    core::GradientSums sums;
    if (call.algebra->needs_sums(*call.fold, wanted))
      sums = passes.products(g, x.detach(), map.center, call.algebra->product_block(), map.sums);
    const core::LayerGradients gradients =
        call.algebra->pullback(*call.fold, call.parameters, std::move(sums), wanted);
    variable_list grads(5);  // x, weight, bias, skew, and the call, which has none
    if (ctx->needs_input_grad(0)) grads[0] = input_gradient(g, x.detach(), call, gradients.input);
    if (ctx->needs_input_grad(1)) grads[1] = like(gradients.gamma, weight);
    if (ctx->needs_input_grad(2)) grads[2] = like(gradients.bias, bias);
    if (ctx->needs_input_grad(3)) grads[3] = like(gradients.skew, skew);
    if (torch::GradMode::is_enabled())
      return refuse_second_derivative(std::move(grads), {grad_outputs[0], x, weight, bias, skew},
                                      call.description);
    return grads;
  }
};

}  // namespace

torch::Tensor apply_layer(const torch::Tensor& x, const torch::Tensor& weight,
                          const torch::Tensor& bias, const torch::Tensor& skew, LayerCall call) {
  return LayerFunction::apply(x, present(weight, x), present(bias, x), present(skew, x),
                              std::move(call));
}

}  // namespace orthobatch::nn
