// The operators on tensors with values: those of CPU tensors by kernels of our own, others through
// ATen's operations.

#include <ATen/ATen.h>

#include "kernels/convert.h"
#include "ops/folding.h"
#include "ops/gradients.h"
#include "ops/operators.h"
#include "ops/tape.h"

namespace orthobatch::ops::values {
namespace {

/// Empty where it is not defined: operators return no undefined tensors.
Tensor or_none(const Tensor& t, const Tensor& like) {
  return t.defined() ? t : at::empty({0}, like.options().requires_grad(false));
}

Inputs inputs_of(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                 const OptionalTensor& skew, const OptionalTensor& read,
                 const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias) {
  return {x,
          value_or_none(weight),
          value_or_none(bias),
          value_or_none(skew),
          value_or_none(read),
          value_or_none(consumer_weight),
          value_or_none(consumer_bias)};
}

/// As torch: of no samples nothing, and no statistics to learn.
Tensor empty_output(const Call& call) {
  if (!call.consumer) return call.in.x.to(call.type, /*non_blocking=*/false, /*copy=*/true);
  if (call.weight.dim() == 2) return at::zeros({0, call.weight.size(0)}, call.weight.options());
  const Tensor bias = at::zeros({call.weight.size(0)}, call.weight.options());
  return call.consumer->forward(call.read(), call.weight, bias);
}

/// Z in the type of the input.
Tensor transformed(const Call& call, const Made& made) {
  return kernels::passes_for(call.in.x)
      .transform(call.in.x, made.map->affine, made.placed)
      .to(call.type);
}

void check_backward(const Tensor& grad, const Call& call, Inputs& in, const Flags7& wanted) {
  const KnownLayer& layer = *call.layer;
  TORCH_CHECK(grad.layout() == at::kStrided && grad.scalar_type() == call.output_type() &&
                  grad.device() == in.x.device() && grad.sizes() == call.output_sizes(),
              layer.who, ": expected a gradient of size ", call.output_sizes(), ", type ",
              call.output_type(), " on ", in.x.device(), ", got ", grad.sizes(), ", ",
              grad.scalar_type(), " on ", grad.device());
  const auto of = in.all();
  for (size_t k = 0; k < of.size(); ++k)
    TORCH_CHECK(!wanted[k] || of[k]->defined(), layer.who,
                ": expected no gradient to be wanted of an absent tensor, got one of argument ", k);
}

void average_into(const Tensor& average, const Tensor& value, double momentum) {
  average.mul_(1 - momentum).add_(value.to(average.options()), momentum);
}

/// All batches with one weight: a count on another device stays there.
void average_into(const Tensor& average, const Tensor& value, const Tensor& count) {
  average.add_((value.to(average.options()) - average) / count);
}

}  // namespace

Tensors2 train(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
               const OptionalTensor& skew, string_view layer, const OptionalTensor& read,
               const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
               at::IntArrayRef consumer) {
  const Call call(layer, inputs_of(x, weight, bias, skew, read, consumer_weight, consumer_bias),
                  consumer);
  check_samples(call);
  if (call.empty() && !call.layer->has_group())
    return {empty_output(call), at::zeros({tape_size(*call.layer)}, at::kDouble)};
  auto [statistics, made] = batch_of(call);
  Tensor output;
  bool folds = true;
  if (!call.consumer) {
    output = call.empty() ? call.in.x.clone() : transformed(call, made);
  } else if (call.empty()) {
    output = empty_output(call);
  } else if (call.folds(*made.map)) {
    const FoldedWeights weights = folded_weights(call, made);
    output = folded_output(call, weights);
    made.folded_weight = weights.weight;
  } else {
    folds = false;
    output = unfolded_output(call, made);
  }
  return {output, record(statistics, std::move(made), !folds)};
}

Tensor evaluate(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                const OptionalTensor& last, string_view layer, const OptionalTensor& read,
                const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
                at::IntArrayRef consumer) {
  const Call call(layer, inputs_of(x, weight, bias, skew, read, consumer_weight, consumer_bias),
                  consumer);
  if (call.empty()) return empty_output(call);
  const auto made = made_of(*call.layer, call.in, {mean, statistic, value_or_none(last)});
  if (!call.consumer) return transformed(call, *made);
  return call.folds(*made->map) ? folded_output(call, *kept_weights(call, made))
                                : unfolded_output(call, *made);
}

Tensors7 backward(const Tensor& grad, const Tensor& x, const OptionalTensor& weight,
                  const OptionalTensor& bias, const OptionalTensor& skew, at::TensorList statistics,
                  string_view layer, const OptionalTensor& read,
                  const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
                  at::IntArrayRef consumer, Flags7 wanted) {
  Inputs in = inputs_of(x, weight, bias, skew, read, consumer_weight, consumer_bias);
  const Call call(layer, in, consumer);
  check_backward(grad, call, in, wanted);
  Inputs d;
  if (call.empty() && !call.layer->has_group()) {
    for (size_t k = 0; k < wanted.size(); ++k)
      if (wanted[k]) *d.all()[k] = at::zeros_like(*in.all()[k]);
  } else {
    TORCH_CHECK(!statistics.empty() && statistics.size() <= 3,
                "expected a tape, or mean and statistics, got ", statistics.size(), " tensors");
    const Made made = statistics.size() == 1
                          ? replay(statistics[0], call)
                          : *made_of(*call.layer, call.in,
                                     {statistics[0], statistics[1],
                                      statistics.size() == 3 ? statistics[2] : Tensor()});
    d = gradients(grad, call, made, wanted);
  }
  for (size_t k = 0; k < wanted.size(); ++k)
    *d.all()[k] = d.all()[k]->defined() ? d.all()[k]->to(in.all()[k]->scalar_type())
                                        : or_none({}, x);
  return {d.x, d.weight, d.bias, d.skew, d.read, d.consumer_weight, d.consumer_bias};
}

// -------------------------------------------------------------------------- running averages

void track(const Tensor& mean, const Tensor& statistic, const OptionalTensor& last,
           const Tensor& count, const OptionalTensor& weight, const Tensor& tape,
           c10::optional<double> momentum, string_view text) {
  const auto known = layer_of(text);
  const KnownLayer& layer = *known;
  check_momentum(momentum, layer.who);
  TORCH_CHECK(count.scalar_type() == at::kLong && count.numel() == 1, layer.who,
              ": expected num_batches_tracked as one int64, got ", count.sizes(), " of type ",
              count.scalar_type());
  check_average(layer, {mean, statistic, value_or_none(last)});
  check_tape(tape, layer);
  const double seen = tape.select(0, samples).item<double>();
  if (seen == 0) return;
  Average batch = kept_by(tape).average;
  if (!batch.mean.defined() || batch.mean.device() != mean.device()) {
    const MapPointer map = replay(tape, value_or_none(weight), layer);
    batch = to_tensors(layer, map->mean, layer.averages_transform() ? map->T : map->conditioned());
  }
  // As torch keeps variances: unbiased.
  if (layer.per_channel) batch.statistic = seen / (seen - 1) * batch.statistic;
  const at::NoGradGuard no_grad;
  count.add_(1);
  const auto average = [&](const auto& share) {
    average_into(mean, batch.mean, share);
    average_into(statistic, batch.statistic, share);
    if (last.has_value()) average_into(*last, batch.last, share);
  };
  if (momentum.has_value())
    average(*momentum);
  else if (count.is_cpu())
    average(1.0 / count.item<double>());
  else
    average(count);
}

Tensors2 conditioned(const Tensor& tape, const OptionalTensor& weight, string_view text) {
  const auto layer = layer_of(text);
  const MapPointer map = replay(tape, value_or_none(weight), *layer);
  const Average out = to_tensors(*layer, map->mean, map->conditioned());
  return {out.statistic, or_none(out.last, out.statistic)};
}

Tensors2 initial(const Tensor& variance, const OptionalTensor& weight, string_view text) {
  const auto known = layer_of(text);
  const KnownLayer& layer = *known;
  check_sizes(layer, "variances", variance, {layer.num_features});
  core::Statistics statistics;
  statistics.samples = 2;  // any: they stand for a batch
  statistics.mean = core::Vector(layer.num_features);
  statistics.covariance = core::BlockMatrix(layer.num_features, layer.algebra.block());
  const core::Vector values = kernels::to_vector(variance);
  TORCH_CHECK(core::all_finite(values), layer.who, ": expected finite variances, got others");
  core::BlockMatrix& sigma = statistics.covariance;
  for (int64_t b = 0; b < sigma.count(); ++b)
    for (int64_t i = 0, width = sigma.width(b); i < width; ++i)
      sigma.data(b)[i * width + i] = values[sigma.offset(b) + i];
  const core::LayerMap map = layer.algebra.map(
      std::move(statistics), scale_alone(layer, value_or_none(weight)), core::Real::float64);
  const Average out =
      to_tensors(layer, map.mean, layer.averages_transform() ? map.T : map.conditioned());
  return {out.statistic, or_none(out.last, out.statistic)};
}

}  // namespace orthobatch::ops::values
