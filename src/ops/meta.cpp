// The operators on tensors without values: shapes and types alone.

#include <torch/library.h>
#include <torch/torch.h>

#include "ops/operators.h"
#include "ops/tape.h"

namespace orthobatch::ops::meta {
namespace {

Tensor doubles(const Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes, x.options().dtype(at::kDouble).requires_grad(false));
}

/// The dispatcher comes here where any tensor is without values.
void check_devices(const Named& named, std::initializer_list<OptionalTensor> tensors) {
  for (const OptionalTensor& t : tensors)
    TORCH_CHECK(!t.has_value() || t->is_meta(), "BatchOrtho", named.dims, "d(", named.channels,
                "): expected layer and input on one device, got meta and ", t->device());
}

Tensors6 with_seen(const Tensor& output, const Tensor& x, const Named& named, bool transform) {
  const auto layer = find_layer(named);
  const int64_t n = named.channels;
  const bool per_channel = nn::is_per_channel(layer->spec);
  return {output,
          doubles(x, {n}),
          per_channel ? doubles(x, {n}) : doubles(x, {n, n}),
          transform ? doubles(x, {n, n}) : doubles(x, {0}),
          at::empty({5}, x.options().dtype(at::kLong).requires_grad(false)),
          doubles(x, {tape_size(*layer)})};
}

Tensors6 train(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
               const OptionalTensor& skew, string_view spec, int64_t channels, int64_t dims,
               int64_t, bool transform, string_view name) {
  check_devices({spec, channels, dims, name}, {x, weight, bias, skew});
  return with_seen(at::empty_like(x), x, {spec, channels, dims, name}, transform);
}

Tensor evaluate(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                string_view spec, int64_t channels, int64_t dims, bool, string_view name) {
  check_devices({spec, channels, dims, name}, {x, weight, bias, skew, mean, statistic});
  return at::empty_like(x);
}

Tensor gradient(bool wanted, const OptionalTensor& t, const Tensor& x) {
  return wanted ? at::empty_like(*t) : at::empty({0}, x.options().requires_grad(false));
}

Tensors4 backward(const Tensor&, const Tensor& x, const OptionalTensor& weight,
                  const OptionalTensor& bias, const OptionalTensor& skew, at::TensorList,
                  string_view, int64_t, int64_t, int64_t, bool, string_view,
                  std::array<bool, 4> wanted) {
  return {gradient(wanted[0], x, x), gradient(wanted[1], weight, x), gradient(wanted[2], bias, x),
          gradient(wanted[3], skew, x)};
}

Tensor output(const Tensor& x, const OptionalTensor& read, const Tensor& weight,
              at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
              int64_t groups, bool zeros) {
  const Tensor& in = read.has_value() ? *read : x;
  if (groups == 0) return at::linear(in.flatten(1), weight);
  std::vector<int64_t> around, none(stride.size());
  for (size_t d = 0; d < stride.size(); ++d) around.push_back(zeros ? padding[2 * d] : 0);
  return at::convolution(in, weight, {}, stride, around, dilation, /*transposed=*/false, none,
                         groups);
}

Tensors6 folded_train(const Tensor& x, const OptionalTensor& read, const OptionalTensor& weight,
                      const OptionalTensor& bias, const OptionalTensor& skew,
                      const Tensor& reader_weight, const OptionalTensor&, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups, bool zeros,
                      string_view spec, int64_t channels, int64_t dims, int64_t, bool transform,
                      string_view name) {
  check_devices({spec, channels, dims, name}, {x, read, weight, bias, skew, reader_weight});
  return with_seen(output(x, read, reader_weight, stride, padding, dilation, groups, zeros), x,
                   {spec, channels, dims, name}, transform);
}

Tensor folded_evaluate(const Tensor& x, const OptionalTensor& read, const OptionalTensor&,
                       const OptionalTensor&, const OptionalTensor&, const Tensor& reader_weight,
                       const OptionalTensor&, at::IntArrayRef stride, at::IntArrayRef padding,
                       at::IntArrayRef dilation, int64_t groups, bool zeros, const Tensor&,
                       const Tensor&, string_view, int64_t, int64_t, bool, string_view) {
  return output(x, read, reader_weight, stride, padding, dilation, groups, zeros);
}

Tensors7 folded_backward(const Tensor&, const Tensor& x, const OptionalTensor& read,
                         const OptionalTensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& skew, const Tensor& reader_weight,
                         const OptionalTensor& reader_bias, at::TensorList, at::IntArrayRef,
                         at::IntArrayRef, at::IntArrayRef, int64_t, bool, string_view, int64_t,
                         int64_t, int64_t, bool, string_view, std::array<bool, 7> wanted) {
  return {gradient(wanted[0], x, x),          gradient(wanted[1], read, x),
          gradient(wanted[2], weight, x),     gradient(wanted[3], bias, x),
          gradient(wanted[4], skew, x),       gradient(wanted[5], reader_weight, x),
          gradient(wanted[6], reader_bias, x)};
}

void track(Tensor, Tensor, Tensor, const Tensor&, const Tensor&, const Tensor&,
           c10::optional<double>, bool) {}

std::tuple<Tensor, Tensor> condition(const Tensor& covariance, const OptionalTensor&,
                                     string_view spec) {
  const int64_t n = covariance.size(0);
  const auto layer = find_layer({spec, n, 2, ""});
  return {nn::is_per_channel(layer->spec) ? doubles(covariance, {n}) : doubles(covariance, {n, n}),
          doubles(covariance, {n, n})};
}

std::tuple<Tensor, Tensor> average_map(const OptionalTensor&, const OptionalTensor&,
                                       const OptionalTensor&, const Tensor& mean, const Tensor&,
                                       string_view, bool) {
  const int64_t n = mean.size(0);
  return {doubles(mean, {n, n}), doubles(mean, {n})};
}

}  // namespace
}  // namespace orthobatch::ops::meta

TORCH_LIBRARY_IMPL(orthobatch, Meta, m) {
  using namespace orthobatch::ops::meta;
  m.impl("train", train);
  m.impl("evaluate", evaluate);
  m.impl("backward", backward);
  m.impl("folded_train", folded_train);
  m.impl("folded_evaluate", folded_evaluate);
  m.impl("folded_backward", folded_backward);
  m.impl("track_", track);
  m.impl("condition", condition);
  m.impl("average_map", average_map);
}
