// The operators on tensors with values: those of CPU tensors by kernels of our own, others through
// ATen's operations.

#include <torch/library.h>
#include <torch/torch.h>

#include "kernels/convert.h"
#include "kernels/passes.h"
#include "ops/batch.h"

namespace orthobatch::ops::values {
namespace {

using nn::LayerCall;

Tensors6 train(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
               const OptionalTensor& skew, string_view spec, int64_t channels, int64_t dims,
               int64_t sample_stride, bool transform, string_view name) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  nn::check_samples(layer.callee(), input, {sample_stride});
  if (input.numel() == 0)  // as torch: empty, and no statistics to learn
    return with(input.clone(), seen_nothing(layer.layer(), input, layer.per_channel(), transform));
  const Tensor x = kernels::dense_layout(input);
  const auto [statistics, call] = on_batch(layer, x, sample_stride);
  const Tensor z = kernels::passes_for(x).transform(x, call.fold->map);
  return with(z, seen(call, layer, x, statistics, transform, false));
}

Tensor evaluate(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                string_view spec, int64_t channels, int64_t dims, bool transform,
                string_view name) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  if (input.numel() == 0) return input.clone();
  const Tensor x = kernels::dense_layout(input);
  return kernels::passes_for(x).transform(x,
                                          layer.on_average(mean, statistic, transform).fold->map);
}

Tensors4 backward(const Tensor& grad, const Tensor& input, const OptionalTensor& weight,
                  const OptionalTensor& bias, const OptionalTensor& skew, at::TensorList statistics,
                  string_view spec, int64_t channels, int64_t dims, int64_t sample_stride,
                  bool transform, string_view name, std::array<bool, 4> wanted) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  const nn::LayerTensors at{kernels::dense_layout(input), value_or_none(weight),
                            value_or_none(bias), value_or_none(skew)};
  nn::LayerTensors d;
  if (input.numel() == 0) {
    if (wanted[0]) d.x = at::zeros_like(input);
    if (wanted[1]) d.weight = at::zeros_like(at.weight);
    if (wanted[2]) d.bias = at::zeros_like(at.bias);
    if (wanted[3]) d.skew = at::zeros_like(at.skew);
  } else {
    d = nn::layer_gradients(grad, at, *again(layer, input, statistics, sample_stride, transform),
                            wanted);
  }
  return {or_none(d.x, input), or_none(d.weight, input), or_none(d.bias, input),
          or_none(d.skew, input)};
}

// -------------------------------------------------------------------------- running averages

void track(Tensor mean, Tensor statistic, Tensor count, const Tensor& batch_mean,
           const Tensor& batch_statistic, const Tensor& report, c10::optional<double> momentum,
           bool unbiased) {
  nn::check_momentum(momentum, "orthobatch");
  TORCH_CHECK(mean.sizes() == batch_mean.sizes() && statistic.sizes() == batch_statistic.sizes() &&
                  count.scalar_type() == at::kLong && report.numel() == counts,
              "expected running statistics of sizes ", batch_mean.sizes(), " and ",
              batch_statistic.sizes(), " with an int64 count, got ", mean.sizes(), " and ",
              statistic.sizes(), " with ", count.scalar_type());
  const auto seen = static_cast<double>(report.data_ptr<int64_t>()[samples]);
  if (seen == 0) return;
  const at::NoGradGuard no_grad;
  count.add_(1);
  const double weight = momentum.has_value() ? *momentum : 1.0 / count.item<double>();
  nn::average_into(mean, batch_mean, weight);
  nn::average_into(statistic, unbiased ? seen / (seen - 1) * batch_statistic : batch_statistic,
                   weight);
}

std::tuple<Tensor, Tensor> condition(const Tensor& covariance, const OptionalTensor& weight,
                                     string_view spec) {
  const int64_t n = covariance.size(0);
  TORCH_CHECK(covariance.dim() <= 2 && covariance.size(-1) == n,
              "expected variances (C) or a covariance (C×C), got size ", covariance.sizes());
  const auto layer = find_layer({spec, n, 2, ""});
  core::Statistics statistics;
  statistics.samples = 2;  // any: they stand for a batch
  statistics.mean = core::Vector(n);
  const Tensor dense = covariance.dim() == 1 ? covariance.diag() : covariance;
  statistics.covariance =
      core::BlockMatrix::from_dense(kernels::to_matrix(dense), layer->algebra->block());
  core::LayerParameters parameters;
  parameters.gamma = kernels::to_vector(value_or_none(weight));
  parameters.skew = core::Vector(layer->spec.has_rotation() ? n * (n - 1) / 2 : 0);
  const core::Fold fold =
      layer->algebra->fold(std::move(statistics), parameters, core::Real::float64);
  return {nn::statistic_tensor(fold.conditioned(), nn::is_per_channel(layer->spec)),
          nn::statistic_tensor(fold.T, false)};
}

std::tuple<Tensor, Tensor> average_map(const OptionalTensor& weight, const OptionalTensor& bias,
                                       const OptionalTensor& skew, const Tensor& mean,
                                       const Tensor& statistic, string_view spec, bool transform) {
  const Tensor probe = at::empty({0, mean.numel(), 1, 1}, mean.options());
  const Call layer(probe, weight, bias, skew, {spec, mean.numel(), 2, ""});
  const core::AffineMap map =
      core::without_center(layer.on_average(mean, statistic, transform).fold->map);
  return {nn::statistic_tensor(map.P, false), kernels::to_tensor(map.offset)};
}

}  // namespace
}  // namespace orthobatch::ops::values

TORCH_LIBRARY_IMPL(orthobatch, CompositeExplicitAutograd, m) {
  using namespace orthobatch::ops::values;
  m.impl("train", train);
  m.impl("evaluate", evaluate);
  m.impl("backward", backward);
  m.impl("track_", track);
  m.impl("condition", condition);
  m.impl("average_map", average_map);
}
