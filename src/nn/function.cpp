#include "nn/function.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <algorithm>
#include <cmath>

#include "kernels/convert.h"
#include "kernels/passes.h"

namespace orthobatch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Up to here a float product is within 1e-5 of the exact one: the error of the output is about
/// 3e-8 times the amplification (duplicated channels with ε = 1e-5 have 450).
constexpr double largest_float_amplification = 128;

/// A mean that is larger than this in the units of the output is taken off before the product: the
/// error it would bring is, as above, about 3e-8 times it.
constexpr double largest_float_mean = 64;

struct SavedCall : torch::CustomClassHolder {
  LayerCall call;
  Vector center;
  kernels::Sums sums;
};

torch::Tensor like(const Vector& v, const torch::Tensor& parameter) {
  return to_tensor(v).to(parameter.options().requires_grad(false));
}

/// What is subtracted from the data before they are multiplied: nothing, which saves a copy of each
/// tile, where that is as exact as the mean.
Vector center_for(const Fold& fold, torch::ScalarType type) {
  if (type == torch::kDouble || fold.T.block() == 1) return kernels::center_of(fold.mean, type);
  Vector size(fold.mean.size());
  for (int64_t b = 0; b < fold.T.count(); ++b) {
    const int64_t width = fold.T.width(b), first = fold.T.offset(b);
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 0; j < width; ++j)
        size[first + i] += std::abs(fold.T.data(b)[i * width + j] * fold.mean[first + j]);
  }
  const bool small = *std::max_element(size.begin(), size.end()) <= largest_float_mean;
  return small ? Vector(fold.mean.size()) : kernels::center_of(fold.mean, type);
}

/// b − P (μ − center): the constant of Z = P (X − center) + offset.
Vector forward_offset(const LayerCall& call, const Vector& center) {
  Vector rest = call.fold->mean;
  for (size_t c = 0; c < rest.size(); ++c) rest[c] -= center[c];
  Vector offset = multiply(call.fold->P, rest);
  for (size_t c = 0; c < rest.size(); ++c)
    offset[c] = (call.parameters.bias.empty() ? 0.0 : call.parameters.bias[c]) - offset[c];
  return offset;
}

/// G (X − center)ᵀ to G (X − μ)ᵀ
void recenter(kernels::Products& p, const Vector& mean, const Vector& center) {
  for (int64_t b = 0; b < p.B.count(); ++b) {
    const int64_t width = p.B.width(b), first = p.B.offset(b);
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 0; j < width; ++j)
        p.B.data(b)[i * width + j] -= p.sum[first + i] * (mean[first + j] - center[first + j]);
  }
}

torch::Tensor input_gradient(const SavedCall& saved, const torch::Tensor& g, const torch::Tensor& x,
                             const kernels::Products& products, BlockMatrix dsigma) {
  const Fold& fold = *saved.call.fold;
  Vector offset(fold.mean.size());
  if (!saved.call.statistics_are_constant) {
    const double samples = static_cast<double>(x.numel() / x.size(1));
    dsigma *= 2.0 / samples;  // Q = (2/M) ∇Σ
    Vector rest = fold.mean;
    for (size_t c = 0; c < rest.size(); ++c) rest[c] -= saved.center[c];
    const Vector PtG = multiply_transposed(fold.P, products.sum), Qmu = multiply(dsigma, rest);
    for (size_t c = 0; c < offset.size(); ++c) offset[c] = -PtG[c] / samples - Qmu[c];
  }
  return kernels::passes_for(g).input_gradient(g, x, fold.P, dsigma, saved.center, offset,
                                               saved.sums);
}

/// A second derivative would silently leave out the statistics: say so when it is asked for.
variable_list refuse_second_derivative(variable_list grads, const std::string& description) {
  for (torch::Tensor& g : grads)
    if (g.defined()) g = g.detach().requires_grad_();
  auto error = std::make_shared<torch::autograd::DelayedError>(
      description + ": expected to be differentiated once; a second derivative is not available",
      static_cast<int>(grads.size()));
  return (*error)(std::move(grads));
}

class LayerFunction : public torch::autograd::Function<LayerFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& skew, LayerCall call) {
    auto saved = c10::make_intrusive<SavedCall>();
    saved->call = std::move(call);
    saved->center = center_for(*saved->call.fold, x.scalar_type());
    const Fold& fold = *saved->call.fold;
    saved->sums = fold.amplification > largest_float_amplification ? kernels::Sums::in_double
                                                                   : kernels::Sums::in_type;
    const torch::Tensor z = kernels::passes_for(x).transform(
        x, fold.P, saved->center, forward_offset(saved->call, saved->center), saved->sums);
    ctx->save_for_backward({x, weight, bias, skew});
    ctx->saved_data["call"] = c10::IValue::make_capsule(saved);
    return z;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    const auto capsule = ctx->saved_data["call"].toCapsule();
    const SavedCall& saved = *static_cast<const SavedCall*>(capsule.get());
    const LayerCall& call = saved.call;
    const variable_list tensors = ctx->get_saved_variables();
    const torch::Tensor &x = tensors[0], &weight = tensors[1], &bias = tensors[2],
                        &skew = tensors[3];
    const torch::Tensor g = kernels::same_layout(grad_outputs[0], x);

    variable_list grads(5);  // x, weight, bias, skew, and the call, which has none
    const bool any_parameter =
        ctx->needs_input_grad(1) || ctx->needs_input_grad(2) || ctx->needs_input_grad(3);
    const bool needs_sigma = ctx->needs_input_grad(0) && !call.statistics_are_constant;
    kernels::Products products;
    LayerGradients gradients;
    if (any_parameter || needs_sigma) {
      products = kernels::passes_for(x).products(g, x, saved.center, call.algebra->product_block(),
                                                 saved.sums);
      recenter(products, call.fold->mean, saved.center);
      gradients = call.algebra->pullback(*call.fold, call.parameters, products.B, needs_sigma);
    }
    if (ctx->needs_input_grad(0))
      grads[0] = input_gradient(saved, g, x, products, std::move(gradients.sigma));
    if (ctx->needs_input_grad(1)) grads[1] = like(gradients.gamma, weight);
    if (ctx->needs_input_grad(2)) grads[2] = like(products.sum, bias);
    if (ctx->needs_input_grad(3)) grads[3] = like(gradients.skew, skew);
    if (torch::GradMode::is_enabled())
      return refuse_second_derivative(std::move(grads), call.description);
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

}  // namespace orthobatch
