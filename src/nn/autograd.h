#pragma once
// What our autograd functions share.

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>

#include "kernels/convert.h"

namespace orthobatch::nn {

template <typename Call>
struct KeptCall : torch::CustomClassHolder {
  explicit KeptCall(Call c) : call(std::move(c)) {}
  Call call;
};

/// Keeps what is no tensor from the forward pass for the backward pass.
template <typename Call>
void keep(torch::autograd::AutogradContext* ctx, Call call) {
  ctx->saved_data["call"] =
      c10::IValue::make_capsule(c10::make_intrusive<KeptCall<Call>>(std::move(call)));
}

/// What `keep` kept; it lives as long as the context.
template <typename Call>
const Call& kept(torch::autograd::AutogradContext* ctx) {
  return static_cast<const KeptCall<Call>*>(ctx->saved_data["call"].toCapsule().get())->call;
}

/// An autograd function's inputs must be defined: an empty constant stands for an absent one.
inline torch::Tensor present(const torch::Tensor& t, const torch::Tensor& x) {
  return t.defined() ? t : torch::empty({0}, x.options().requires_grad(false));
}

/// A gradient in the type of its parameter and on its device.
inline torch::Tensor like(const core::Vector& v, const torch::Tensor& parameter) {
  return kernels::to_tensor(v).to(parameter.options().requires_grad(false));
}

/// A second derivative would silently leave out the statistics: say so when it is asked for, with
/// respect to whatever the first one depends on.
inline torch::autograd::variable_list refuse_second_derivative(
    torch::autograd::variable_list grads, const torch::autograd::variable_list& depends_on,
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

}  // namespace orthobatch::nn
