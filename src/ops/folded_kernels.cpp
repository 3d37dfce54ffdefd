// The operators of a layer folded into what reads it, on tensors with values.

#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>

#include "kernels/convert.h"
#include "nn/folded_function.h"
#include "nn/sampling.h"
#include "ops/batch.h"

namespace orthobatch::ops::values {
namespace {

using nn::LayerCall;

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

}  // namespace
}  // namespace orthobatch::ops::values

TORCH_LIBRARY_IMPL(orthobatch, CompositeExplicitAutograd, m) {
  using namespace orthobatch::ops::values;
  m.impl("folded_train", folded_train);
  m.impl("folded_evaluate", folded_evaluate);
  m.impl("folded_backward", folded_backward);
}
