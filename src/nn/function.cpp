#include "nn/function.h"

#include "kernels/passes.h"
#include "nn/autograd.h"
#include "nn/ranks.h"
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

/// Those of no samples.
core::GradientSums no_sums(const LayerCall& call) {
  const int64_t channels = call.fold->T.size();
  return {core::BlockMatrix(channels, call.algebra->product_block()), core::Vector(channels)};
}

class LayerFunction : public torch::autograd::Function<LayerFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& skew, LayerCall call) {
    // A rank without samples still has its part in what the others sum up.
    const torch::Tensor z =
        x.numel() == 0 ? x.clone() : kernels::passes_for(x).transform(x, call.fold->map);
    ctx->save_for_backward({x, weight, bias, skew});
    keep(ctx, std::move(call));
    return z;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    const LayerCall& call = kept<LayerCall>(ctx);
    const variable_list saved = ctx->get_saved_variables();
    const auto wants = [&](size_t input) { return ctx->needs_input_grad(input); };
    LayerTensors d = layer_gradients(grad_outputs[0], {saved[0], saved[1], saved[2], saved[3]},
                                     call, {wants(0), wants(1), wants(2), wants(3)});
    variable_list grads = {d.x, d.weight, d.bias, d.skew, {}};  // the call has none
    if (!torch::GradMode::is_enabled()) return grads;
    variable_list depends = saved;
    depends.push_back(grad_outputs[0]);
    return refuse_second_derivative(std::move(grads), depends, call.description);
  }
};

}  // namespace

bool sums_over_ranks(const LayerCall& call, core::LayerAlgebra::Wanted wanted) {
  return call.group && call.fold->samples > 0 && wanted.input;
}

std::function<core::LayerGradients()> begin_pull_back(const LayerCall& call,
                                                      const core::AffineMap& map,
                                                      core::GradientSums sums,
                                                      core::LayerAlgebra::Wanted wanted) {
  const auto pull = [&call, &map](core::GradientSums of, core::LayerAlgebra::Wanted parts) {
    return call.algebra->pullback(*call.fold, map, call.parameters, std::move(of), parts);
  };
  if (!sums_over_ranks(call, wanted))
    return
        [pull, wanted, sums = std::move(sums)]() mutable { return pull(std::move(sums), wanted); };
  auto all = sum_over_ranks(call.group, sums);
  core::LayerGradients own;
  if (wanted.parameters) own = pull(std::move(sums), {true, false});
  return [pull, all = std::move(all), out = std::move(own)]() mutable {
    out.input = pull(all(), {false, true}).input;
    return out;
  };
}

core::GradientSums layer_sums(const torch::Tensor& dz, const torch::Tensor& x,
                              const LayerCall& call) {
  if (x.numel() == 0) return no_sums(call);
  const core::AffineMap& map = call.fold->map;
  return kernels::passes_for(x).products(kernels::same_layout(dz.detach(), x), x.detach(),
                                         map.center, call.algebra->product_block(), map.sums);
}

LayerTensors layer_gradients(const torch::Tensor& dz, const LayerTensors& at, const LayerCall& call,
                             std::array<bool, 4> wanted, const core::GradientSums* own) {
  const torch::Tensor x = at.x.detach(), g = kernels::same_layout(dz.detach(), x);
  const core::LayerAlgebra::Wanted parts = {wanted[1] || wanted[2] || wanted[3], wanted[0]};
  const core::AffineMap& map = call.fold->map;
  core::GradientSums sums;
  if (own)
    sums = *own;
  else if (call.algebra->needs_sums(*call.fold, parts))
    sums = layer_sums(g, x, call);
  const core::LayerGradients gradients = begin_pull_back(call, map, std::move(sums), parts)();
  LayerTensors out;
  if (wanted[0])
    out.x = x.numel() == 0 ? torch::zeros_like(x) : input_gradient(g, x, call, gradients.input);
  if (wanted[1]) out.weight = like(gradients.gamma, at.weight);
  if (wanted[2]) out.bias = like(gradients.bias, at.bias);
  if (wanted[3]) out.skew = like(gradients.skew, at.skew);
  return out;
}

torch::Tensor apply_layer(const torch::Tensor& x, const torch::Tensor& weight,
                          const torch::Tensor& bias, const torch::Tensor& skew, LayerCall call) {
  return LayerFunction::apply(x, present(weight, x), present(bias, x), present(skew, x),
                              std::move(call));
}

}  // namespace orthobatch::nn
