// The operators on tensors with values: those of CPU tensors by kernels of our own, others through
// ATen's operations.

#include <torch/library.h>
#include <torch/torch.h>

#include "kernels/convert.h"
#include "nn/folded_function.h"
#include "nn/sampling.h"
#include "ops/operators.h"
#include "ops/tape.h"

namespace orthobatch::ops::values {
namespace {

using nn::LayerCall;

enum Counts { samples, floored, null, exchanges, unfolded, counts };

Tensor none(const Tensor& like) { return at::empty({0}, like.options().requires_grad(false)); }
Tensor or_none(const Tensor& t, const Tensor& like) { return t.defined() ? t : none(like); }

// ------------------------------------------------------------------------------ what was seen

/// What the forward operators in training return besides their output.
struct Seen {
  Tensor mean, covariance, transform, report, tape;
};

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

/// The statistics of x, and what is made of them.
std::pair<core::Statistics, LayerCall> on_batch(const Call& layer, const Tensor& x,
                                                int64_t sample_stride) {
  const nn::Callee callee = layer.callee();
  const core::Real real = kernels::real_of(x);
  const nn::Sampling sampling{sample_stride, {}, nn::largest_variance(layer.layer().spec, real)};
  core::Statistics statistics = nn::batch_statistics(callee, x, sampling);
  LayerCall call = nn::call_on_statistics(callee, statistics, real, sampling);
  return {std::move(statistics), std::move(call)};
}

/// The call of the forward pass again.
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

// ---------------------------------------------------------------------------------- the layer

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

// -------------------------------------------------------------------------- in several processes

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

// ----------------------------------------------------------------- folded into what reads it

/// What reads the layer's output, and how.
struct Reading {
  std::shared_ptr<const nn::Reader> reader;
  nn::Convolution convolution;
  Tensor x;      // dense
  Tensor read;   // in its place; x itself where nothing else was given
  bool reads_x;  // so it was
  Tensor weight, bias;

  /// Z as the reader gets it, for a batch that is not folded.
  Tensor unfolded(const LayerCall& call) const {
    const core::AffineMap& map = call.fold->map;
    const kernels::Passes& passes = kernels::passes_for(x);
    const std::vector<int64_t> pad = convolution.beforehand();
    // Zeros around X are not zeros around Z.
    if (convolution.zeros && !pad.empty())
      return at::constant_pad_nd(passes.transform(x, map), pad);
    return passes.transform(read, map);
  }
};

Reading reading_of(const Call& layer, const Tensor& input, const OptionalTensor& read,
                   const Tensor& weight, const OptionalTensor& bias, at::IntArrayRef stride,
                   at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups, bool zeros) {
  Reading out;
  out.x = kernels::dense_layout(input);
  out.reads_x = !read.has_value();
  out.read = out.reads_x ? out.x : kernels::dense_layout(*read);
  out.weight = weight;
  out.bias = value_or_none(bias);
  const std::string description = layer.callee().description();
  if (groups == 0) {
    const int64_t values = out.read.numel() / std::max<int64_t>(out.read.size(0), 1);
    TORCH_CHECK(weight.dim() == 2 && weight.size(1) == values, description,
                " folded into a Linear: expected a weight of ", values, " columns, got size ",
                weight.sizes());
    std::vector<int64_t> sizes = out.read.sizes().vec();
    sizes[0] = weight.size(0);
    out.weight = weight.reshape(sizes);
    out.reader = std::make_shared<nn::LinearReader>();
    return out;
  }
  const size_t directions = stride.size();
  TORCH_CHECK(static_cast<size_t>(weight.dim()) == directions + 2 &&
                  dilation.size() == directions && padding.size() == 2 * directions,
              description, " folded into a convolution: expected weight, padding and dilation of ",
              directions, " directions, got a weight of size ", weight.sizes(), ", padding ",
              padding, " and dilation ", dilation);
  TORCH_CHECK(groups >= 1 && weight.size(1) * groups == layer.layer().channels &&
                  weight.size(0) % groups == 0,
              description, " folded into a convolution: expected a weight of ",
              layer.layer().channels, " input channels in ", groups, " groups, got size ",
              weight.sizes());
  nn::Convolution& c = out.convolution;
  c.kernel = weight.sizes().slice(2).vec();
  c.stride = stride.vec();
  c.dilation = dilation.vec();
  c.groups = groups;
  c.zeros = zeros;
  for (size_t d = 0; d < directions; ++d)
    c.padding.emplace_back(padding[2 * d], padding[2 * d + 1]);
  TORCH_CHECK(c.beforehand().empty() || !out.reads_x, description,
              " folded into a convolution: expected what it reads, padded beforehand");
  out.reader = nn::convolution_reader(c, input.sizes(), description);
  return out;
}

Tensor output(const Reading& r, const LayerCall& call, bool folds) {
  if (folds) {
    const nn::FoldedCall folded = nn::fold_call(call, r.reader);
    return nn::folded_output(r.read, nn::folded_weights(folded, r.weight, r.bias), *r.reader);
  }
  const Tensor bias = r.bias.defined() ? r.bias : at::zeros({r.weight.size(0)}, r.weight.options());
  return r.reader->forward(r.unfolded(call), r.weight, bias);
}

Tensor empty_output(const Reading& r) {
  const Tensor bias = at::zeros({r.weight.size(0)}, r.weight.options());
  if (!r.convolution.kernel.empty()) return r.reader->forward(r.read, r.weight, bias);
  return at::zeros({0, r.weight.size(0)}, r.weight.options());
}

Tensors6 folded_train(const Tensor& input, const OptionalTensor& read, const OptionalTensor& weight,
                      const OptionalTensor& bias, const OptionalTensor& skew,
                      const Tensor& reader_weight, const OptionalTensor& reader_bias,
                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                      int64_t groups, bool zeros, string_view spec, int64_t channels, int64_t dims,
                      int64_t sample_stride, bool transform, string_view name) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  nn::check_samples(layer.callee(), input, {sample_stride});
  const Reading r = reading_of(layer, input, read, reader_weight, reader_bias, stride, padding,
                               dilation, groups, zeros);
  if (input.numel() == 0)
    return with(empty_output(r),
                seen_nothing(layer.layer(), input, layer.per_channel(), transform));
  const auto [statistics, call] = on_batch(layer, r.x, sample_stride);
  const bool folds = nn::folds(call, *r.reader);
  return with(output(r, call, folds), seen(call, layer, r.x, statistics, transform, !folds));
}

Tensor folded_evaluate(const Tensor& input, const OptionalTensor& read,
                       const OptionalTensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& skew, const Tensor& reader_weight,
                       const OptionalTensor& reader_bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                       bool zeros, const Tensor& mean, const Tensor& statistic, string_view spec,
                       int64_t channels, int64_t dims, bool transform, string_view name) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  const Reading r = reading_of(layer, input, read, reader_weight, reader_bias, stride, padding,
                               dilation, groups, zeros);
  if (input.numel() == 0) return empty_output(r);
  const LayerCall call = layer.on_average(mean, statistic, transform);
  return output(r, call, nn::folds(call, *r.reader));
}

/// A batch that was not folded: back through the reader, then through the layer.
nn::FoldedTensors unfolded_gradients(const Tensor& grad, const Reading& r,
                                     const nn::FoldedTensors& at, const LayerCall& call,
                                     std::array<bool, 7> wanted) {
  const auto [wants_x, wants_read, wants_gamma, wants_b, wants_skew, wants_weight, wants_bias] =
      wanted;
  const std::vector<int64_t> pad = r.convolution.beforehand();
  const bool padded_zeros = r.convolution.zeros && !pad.empty();
  const bool through_x = r.reads_x || padded_zeros;
  const core::LayerAlgebra::Wanted parts = {wants_gamma || wants_b || wants_skew, wants_x};
  const bool needs_z = parts.parameters || wants_x || wants_read;
  const nn::Reader::Gradients direct =
      r.reader->backward(grad, r.unfolded(call), r.weight, {needs_z, wants_weight});
  nn::FoldedTensors out;
  if (wants_weight) out.weight = direct.weight;
  if (wants_bias) {
    const Tensor h = kernels::dense_layout(grad);
    out.bias = kernels::to_tensor(kernels::passes_for(h).channel_sums(h))
                   .to(at.bias.options().requires_grad(false));
  }
  if (through_x) {
    Tensor dz = direct.input;
    if (padded_zeros) {
      std::vector<int64_t> back;
      for (const int64_t p : pad) back.push_back(-p);
      dz = at::constant_pad_nd(dz, back);
    }
    if (!needs_z) return out;
    const nn::LayerTensors d = nn::layer_gradients(dz, {r.x, at.gamma, at.b, at.skew}, call,
                                                   {wants_x, wants_gamma, wants_b, wants_skew});
    out.x = d.x;
    out.gamma = d.weight;
    out.b = d.bias;
    out.skew = d.skew;
    if (wants_read) out.read = at::zeros_like(r.read);
    return out;
  }
  if (!needs_z) return out;
  // The reader saw an image of x of its own: the statistics' part goes to x, the map's to that.
  const kernels::Passes& passes = kernels::passes_for(r.x);
  const core::AffineMap& map = call.fold->map;
  const Tensor g = kernels::same_layout(direct.input, r.read);
  core::GradientSums sums;
  if (call.algebra->needs_sums(*call.fold, parts))
    sums = passes.products(g, r.read, map.center, call.algebra->product_block(), map.sums);
  const core::LayerGradients d =
      call.algebra->pullback(*call.fold, call.parameters, std::move(sums), parts);
  if (wants_x) {
    out.x = at::zeros_like(r.x);
    if (!d.input.Q.empty()) nn::add_statistics_gradient(out.x, r.x, d.input, call.sample_stride);
  }
  if (wants_read) out.read = passes.input_gradient(g, r.read, core::gradient_map(map));
  const auto like = [](const core::Vector& v, const Tensor& t) {
    return kernels::to_tensor(v).to(t.options().requires_grad(false));
  };
  if (wants_gamma) out.gamma = like(d.gamma, at.gamma);
  if (wants_b) out.b = like(d.bias, at.b);
  if (wants_skew) out.skew = like(d.skew, at.skew);
  return out;
}

Tensors7 folded_backward(const Tensor& grad, const Tensor& input, const OptionalTensor& read,
                         const OptionalTensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& skew, const Tensor& reader_weight,
                         const OptionalTensor& reader_bias, at::TensorList statistics,
                         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                         int64_t groups, bool zeros, string_view spec, int64_t channels,
                         int64_t dims, int64_t sample_stride, bool transform, string_view name,
                         std::array<bool, 7> wanted) {
  const Call layer(input, weight, bias, skew, {spec, channels, dims, name});
  const Reading r = reading_of(layer, input, read, reader_weight, reader_bias, stride, padding,
                               dilation, groups, zeros);
  nn::FoldedTensors at{r.x,
                       r.reads_x ? Tensor() : r.read,
                       value_or_none(weight),
                       value_or_none(bias),
                       value_or_none(skew),
                       r.weight,
                       r.bias};
  nn::FoldedTensors d;
  if (input.numel() == 0) {
    const auto zeros_for = [&](bool wants, const Tensor& t) {
      return wants ? at::zeros_like(t) : Tensor();
    };
    d = {zeros_for(wanted[0], input),    zeros_for(wanted[1], at.read),
         zeros_for(wanted[2], at.gamma), zeros_for(wanted[3], at.b),
         zeros_for(wanted[4], at.skew),  zeros_for(wanted[5], at.weight),
         zeros_for(wanted[6], at.bias)};
  } else {
    const LayerCall call = *again(layer, input, statistics, sample_stride, transform);
    if (nn::folds(call, *r.reader)) {
      const nn::FoldedCall folded = nn::fold_call(call, r.reader);
      d = nn::folded_gradients(grad, at, nn::folded_weights(folded, r.weight, r.bias).weight,
                               folded, wanted);
    } else {
      d = unfolded_gradients(grad.detach(), r, at, call, wanted);
    }
  }
  if (d.weight.defined()) d.weight = d.weight.reshape(reader_weight.sizes());
  return {or_none(d.x, input),   or_none(d.read, input), or_none(d.gamma, input),
          or_none(d.b, input),   or_none(d.skew, input), or_none(d.weight, input),
          or_none(d.bias, input)};
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
  m.impl("statistics", statistics);
  m.impl("merge", merge);
  m.impl("train_on", train_on);
  m.impl("sums", sums);
  m.impl("backward_on", backward_on);
  m.impl("folded_train", folded_train);
  m.impl("folded_evaluate", folded_evaluate);
  m.impl("folded_backward", folded_backward);
  m.impl("track_", track);
  m.impl("condition", condition);
  m.impl("average_map", average_map);
}
