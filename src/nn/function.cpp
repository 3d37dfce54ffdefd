#include "nn/function.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include "kernels/convert.h"
#include "kernels/passes.h"

namespace orthobatch::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedCall : torch::CustomClassHolder {
  LayerCall call;
};

torch::Tensor like(const core::Vector& v, const torch::Tensor& parameter) {
  return kernels::to_tensor(v).to(parameter.options().requires_grad(false));
}

/// A second derivative would silently leave out the statistics: say so when it is asked for, with
/// respect to whatever the first one depends on.
variable_list refuse_second_derivative(variable_list grads, const variable_list& depends_on,
                                       const std::string& description) {
  const size_t count = grads.size();
  grads.insert(grads.end(), depends_on.begin(), depends_on.end());
  auto error = std::make_shared<torch::autograd::DelayedError>(
      description + ": expected to be differentiated once; a second derivative is not available",
      static_cast<int>(grads.size()));
  grads = (*error)(std::move(grads));
  grads.resize(count);
  return grads;
}

class LayerFunction : public torch::autograd::Function<LayerFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& skew, LayerCall call) {
    auto saved = c10::make_intrusive<SavedCall>();
    saved->call = std::move(call);
    const torch::Tensor z = kernels::passes_for(x).transform(x, saved->call.fold->map);
    ctx->save_for_backward({x, weight, bias, skew});
    ctx->saved_data["call"] = c10::IValue::make_capsule(saved);
    return z;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    const auto capsule = ctx->saved_data["call"].toCapsule();
    const LayerCall& call = static_cast<const SavedCall*>(capsule.get())->call;
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
    if (ctx->needs_input_grad(0)) grads[0] = passes.input_gradient(g, x.detach(), gradients.input);
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
  // An autograd function's inputs must be defined: an empty constant stands for an absent one.
  const auto present = [&](const torch::Tensor& t) {
    return t.defined() ? t : torch::empty({0}, x.options().requires_grad(false));
  };
  return LayerFunction::apply(x, present(weight), present(bias), present(skew), std::move(call));
}

}  // namespace orthobatch::nn
