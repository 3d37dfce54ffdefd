// A layer in parts, for who sums over processes himself, on tensors with values.

#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>

#include "kernels/convert.h"
#include "nn/sampling.h"
#include "ops/batch.h"
#include "ops/tape.h"

namespace orthobatch::ops::values {
namespace {

using nn::LayerCall;

Tensor statistics(const Tensor& input, string_view spec, int64_t channels, int64_t dims,
                  int64_t sample_stride, string_view name) {
  const auto layer = find_layer({spec, channels, dims, name});
  TORCH_CHECK(input.dim() >= 2 && input.size(1) == channels, to_string(layer->spec), ": expected ",
              channels, " channels, got input of size ", input.sizes());
  core::Statistics out;
  if (input.numel() > 0) {
    const Tensor x = kernels::dense_layout(nn::sampled(input.detach(), sample_stride));
    out = kernels::passes_for(x).moments(x, layer->algebra->block());
  } else {
    out.mean = core::Vector(channels);
    out.covariance = core::BlockMatrix(channels, layer->algebra->block());
  }
  return kernels::to_tensor(packed(out));
}

Tensor merge(at::TensorList parts, string_view spec, int64_t channels) {
  const auto layer = find_layer({spec, channels, 2, ""});
  std::vector<core::Statistics> all;
  bool any = false;
  for (const Tensor& part : parts) {
    all.push_back(unpacked(part, *layer));
    any = any || all.back().samples > 0;
  }
  TORCH_CHECK(
      any, to_string(layer->spec),
      ": Expected more than 1 value per channel when training, got 0 on all ranks together");
  return kernels::to_tensor(packed(core::merge(all)));
}

Tensors6 train_on(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                  const OptionalTensor& skew, const Tensor& merged, string_view spec,
                  int64_t channels, int64_t dims, int64_t sample_stride, bool transform,
                  string_view name) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  const Tensor x = kernels::dense_layout(input);
  const core::Real real = kernels::real_of(x);
  const nn::Sampling sampling{sample_stride, {}, nn::largest_variance(layer.layer().spec, real)};
  const core::Statistics statistics = unpacked(merged, layer.layer());
  nn::check_statistics(layer.callee(), statistics, x, sampling, /*of_ranks=*/true);
  const LayerCall call = nn::call_on_statistics(layer.callee(), statistics, real, sampling);
  const Tensor z = x.numel() == 0 ? x.clone() : kernels::passes_for(x).transform(x, call.fold->map);
  return with(z, seen(call, layer, x, statistics, transform, false));
}

Tensor sums(const Tensor& grad, const Tensor& input, const OptionalTensor& weight,
            const OptionalTensor& bias, const OptionalTensor& skew, const Tensor& tape,
            string_view spec, int64_t channels, int64_t dims, int64_t sample_stride,
            string_view name) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  const Tensor x = kernels::dense_layout(input);
  const auto call = replay(tape, layer, kernels::real_of(x), sample_stride);
  const core::GradientSums own = nn::layer_sums(grad, x, *call);
  core::Vector out = own.B.values();
  out.insert(out.end(), own.sum.begin(), own.sum.end());
  return kernels::to_tensor(out);
}

/// As `sums` packed them.
core::GradientSums sums_of(const Tensor& t, const LayerCall& call) {
  const int64_t channels = call.fold->T.size();
  core::GradientSums out{core::BlockMatrix(channels, call.algebra->product_block()),
                         core::Vector(channels)};
  core::Vector& B = out.B.values();
  TORCH_CHECK(t.scalar_type() == at::kDouble &&
                  t.numel() == static_cast<int64_t>(B.size() + out.sum.size()),
              call.description, ": expected ", B.size() + out.sum.size(), " sums, got ", t.numel());
  const Tensor dense = t.cpu().contiguous();
  const double* values = dense.data_ptr<double>();
  std::copy_n(values, B.size(), B.begin());
  std::copy_n(values + B.size(), out.sum.size(), out.sum.begin());
  return out;
}

/// The sum over ranks that somebody else has made.
class Made : public Collectives {
 public:
  explicit Made(Tensor total) : total_(std::move(total)) {}
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  std::vector<Tensor> gather(const Tensor& t) override { return {t}; }
  void sum(Tensor& t) override { t.copy_(total_); }

 private:
  Tensor total_;
};

Tensors4 backward_on(const Tensor& grad, const Tensor& input, const OptionalTensor& weight,
                     const OptionalTensor& bias, const OptionalTensor& skew, const Tensor& tape,
                     const Tensor& own, const Tensor& all, string_view spec, int64_t channels,
                     int64_t dims, int64_t sample_stride, string_view name,
                     std::array<bool, 4> wanted) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  const nn::LayerTensors at{kernels::dense_layout(input), value_or_none(weight),
                            value_or_none(bias), value_or_none(skew)};
  LayerCall call = *replay(tape, layer, kernels::real_of(input), sample_stride);
  call.group = ProcessGroup(std::make_shared<Made>(all));
  const core::GradientSums mine = sums_of(own, call);
  const nn::LayerTensors d = nn::layer_gradients(grad, at, call, wanted, &mine);
  return {or_none(d.x, input), or_none(d.weight, input), or_none(d.bias, input),
          or_none(d.skew, input)};
}

}  // namespace
}  // namespace orthobatch::ops::values

TORCH_LIBRARY_IMPL(orthobatch, CompositeExplicitAutograd, m) {
  using namespace orthobatch::ops::values;
  m.impl("statistics", statistics);
  m.impl("merge", merge);
  m.impl("train_on", train_on);
  m.impl("sums", sums);
  m.impl("backward_on", backward_on);
}
