// The operators on tensors without values: sizes and types alone.

#include <ATen/ATen.h>

#include "ops/operators.h"
#include "ops/tape.h"

namespace orthobatch::ops::meta {
namespace {

/// The dispatcher comes here where any tensor is without values.
void check_devices(const KnownLayer& layer, std::initializer_list<OptionalTensor> tensors) {
  for (const OptionalTensor& t : tensors)
    TORCH_CHECK(!t.has_value() || t->is_meta(), layer.who,
                ": expected layer and input on one device, got meta and ", t->device());
}

Tensor output(const Tensor& x, const OptionalTensor& read, const OptionalTensor& weight,
              at::IntArrayRef consumer) {
  if (!weight.has_value()) return at::empty_like(x);
  const Tensor& in = read.has_value() ? *read : x;
  if (consumer.empty()) return at::linear(in.flatten(1), *weight);
  const Convolution c = Convolution::unpacked(consumer);
  std::vector<int64_t> around, none(c.stride.size());
  for (const auto& [first, behind] : c.padding) around.push_back(c.zeros ? first : 0);
  return at::convolution(in, *weight, {}, c.stride, around, c.dilation, /*transposed=*/false, none,
                         c.groups);
}

}  // namespace

Tensors2 train(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
               const OptionalTensor& skew, string_view text, const OptionalTensor& read,
               const OptionalTensor& consumer_weight, const OptionalTensor&,
               at::IntArrayRef consumer) {
  const auto layer = layer_of(text);
  check_devices(*layer, {x, weight, bias, skew, read, consumer_weight});
  return {output(x, read, consumer_weight, consumer),
          at::empty({tape_size(*layer)}, x.options().dtype(at::kDouble).requires_grad(false))};
}

Tensor evaluate(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                const OptionalTensor&, string_view text, const OptionalTensor& read,
                const OptionalTensor& consumer_weight, const OptionalTensor&,
                at::IntArrayRef consumer) {
  check_devices(*layer_of(text), {x, weight, bias, skew, mean, statistic, consumer_weight});
  return output(x, read, consumer_weight, consumer);
}

Tensors7 backward(const Tensor&, const Tensor& x, const OptionalTensor& weight,
                  const OptionalTensor& bias, const OptionalTensor& skew, at::TensorList,
                  string_view, const OptionalTensor& read, const OptionalTensor& consumer_weight,
                  const OptionalTensor& consumer_bias, at::IntArrayRef, Flags7 wanted) {
  const auto gradient = [&](size_t k, const OptionalTensor& t) {
    return wanted[k] ? at::empty_like(*t) : at::empty({0}, x.options().requires_grad(false));
  };
  return {
      gradient(0, x),    gradient(1, weight),          gradient(2, bias),         gradient(3, skew),
      gradient(4, read), gradient(5, consumer_weight), gradient(6, consumer_bias)};
}

void track(const Tensor&, const Tensor&, const OptionalTensor&, const Tensor&,
           const OptionalTensor&, const Tensor&, c10::optional<double>, string_view) {}

}  // namespace orthobatch::ops::meta
