#include "ops/batch.h"

#include <torch/torch.h>

#include "kernels/convert.h"
#include "kernels/passes.h"
#include "ops/tape.h"

namespace orthobatch::ops::values {

using nn::LayerCall;

Tensor or_none(const Tensor& t, const Tensor& like) {
  return t.defined() ? t : at::empty({0}, like.options().requires_grad(false));
}

Seen seen_nothing(const Layer& layer, const Tensor& x, bool per_channel, bool transform) {
  const int64_t n = layer.channels;
  const auto options = at::dtype(at::kDouble).device(x.device());
  return {at::zeros({n}, options),
          per_channel ? at::zeros({n}, options) : at::zeros({n, n}, options),
          transform ? at::zeros({n, n}, options) : at::zeros({0}, options),
          at::zeros({counts}, at::kLong), at::zeros({tape_size(layer)}, at::kDouble)};
}

Seen seen(const LayerCall& call, const Call& layer, const Tensor& x,
          const core::Statistics& statistics, bool transform, bool was_unfolded) {
  const core::Fold& fold = *call.fold;
  const auto placed = [&](Tensor t) { return x.is_cpu() ? t : t.to(x.device()); };
  Seen out;
  out.mean = placed(kernels::to_tensor(fold.mean));
  out.covariance = placed(nn::statistic_tensor(fold.conditioned(), layer.per_channel()));
  out.transform =
      placed(transform ? nn::statistic_tensor(fold.T, false) : at::empty({0}, at::kDouble));
  out.report = at::empty({counts}, at::kLong);
  auto* report = out.report.data_ptr<int64_t>();
  report[samples] = static_cast<int64_t>(fold.samples);
  report[floored] = fold.floored();
  report[null] = fold.null();
  report[exchanges] = fold.exchanges();
  report[unfolded] = was_unfolded ? 1 : 0;
  out.tape = record(statistics, call);
  return out;
}

Tensors6 with(const Tensor& output, const Seen& seen) {
  return {output, seen.mean, seen.covariance, seen.transform, seen.report, seen.tape};
}

std::pair<core::Statistics, LayerCall> on_batch(const Call& layer, const Tensor& x,
                                                int64_t sample_stride) {
  const nn::Callee callee = layer.callee();
  const core::Real real = kernels::real_of(x);
  const nn::Sampling sampling{sample_stride, {}, nn::largest_variance(layer.layer().spec, real)};
  core::Statistics statistics = nn::batch_statistics(callee, x, sampling);
  LayerCall call = nn::call_on_statistics(callee, statistics, real, sampling);
  return {std::move(statistics), std::move(call)};
}

std::shared_ptr<const LayerCall> again(const Call& layer, const Tensor& x,
                                       at::TensorList statistics, int64_t sample_stride,
                                       bool transform) {
  if (statistics.size() == 1)
    return replay(statistics[0], layer, kernels::real_of(x), sample_stride);
  TORCH_CHECK(statistics.size() == 2, "expected a tape, or mean and statistic, got ",
              statistics.size(), " tensors");
  return std::make_shared<const LayerCall>(
      layer.on_average(statistics[0], statistics[1], transform));
}

}  // namespace orthobatch::ops::values
