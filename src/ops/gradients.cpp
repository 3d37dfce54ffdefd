#include "ops/gradients.h"

#include <ATen/ATen.h>

#include "kernels/convert.h"
#include "ops/folding.h"
#include "ops/groups.h"

namespace orthobatch::ops {
namespace {

using core::AffineMap;
using core::GradientSums;
using core::LayerGradients;
using core::LayerMap;

using LayerWanted = core::LayerAlgebra::Wanted;

LayerWanted layer_wanted(const Wanted& wanted) {
  return {wanted[1] || wanted[2] || wanted[3], wanted[0]};
}

/// In the type that the layer computes in.
Tensor in_type(const Tensor& t, const Tensor& x) { return t.detach().to(x.scalar_type()); }

/// Whether a backward pass sums over the processes of the layer's group.
bool sums_over_processes(const Call& call, const LayerMap& map, LayerWanted wanted) {
  return call.layer->has_group() && map.samples > 0 && wanted.input;
}

/// The layer's part, from the sums over this process's samples: the gradients of the parameters are
/// of these, that of the input of those of all processes, which are on their way until what this
/// returns is called. `affine` is the form of the map that the data were seen through.
std::function<LayerGradients()> begin_pullback(const Call& call, const LayerMap& map,
                                               const AffineMap& affine, GradientSums sums,
                                               LayerWanted wanted) {
  const auto pull = [&call, &map, &affine](GradientSums of, LayerWanted parts) {
    return call.layer->algebra.pullback(map, affine, std::move(of), parts);
  };
  if (!sums_over_processes(call, map, wanted))
    return
        [pull, wanted, sums = std::move(sums)]() mutable { return pull(std::move(sums), wanted); };
  auto all = sum_over_processes(group_of(*call.layer), sums);
  LayerGradients own;
  if (wanted.parameters) own = pull(std::move(sums), {true, false});
  return [pull, all = std::move(all), out = std::move(own)]() mutable {
    out.input = pull(all(), {false, true}).input;
    return out;
  };
}

/// Puts the gradients of the parameters. Returns the input's map beside the data, where those are not
/// on the CPU; `forward` is the map that the data were seen through.
kernels::Placed put_parameters(Inputs& out, const LayerGradients& layer, const Call& call,
                               const kernels::Placed& forward, const Wanted& wanted) {
  const core::Vector* values[] = {&layer.gamma, &layer.bias, &layer.skew};
  const Tensor* parameters[] = {&call.in.weight, &call.in.bias, &call.in.skew};
  Tensor* gradients[] = {&out.weight, &out.bias, &out.skew};
  if (call.on_cpu()) {
    for (size_t k = 0; k < 3; ++k)
      if (wanted[k + 1])
        *gradients[k] = kernels::to_tensor(*values[k])
                            .to(parameters[k]->options().requires_grad(false));
    return {};
  }
  const core::GradientMap& map = layer.input;
  core::BlockMatrix Q = map.Q;
  Q *= map.scale;
  std::vector<const core::Vector*> parts;
  if (!Q.empty()) parts = {&Q.values(), &map.offset};
  for (size_t k = 0; k < 3; ++k)
    if (wanted[k + 1]) parts.push_back(values[k]);
  kernels::Placed placed = {forward.P, {}, forward.center, {}};
  if (parts.empty()) return placed;
  const std::vector<Tensor> there = kernels::to_device(parts, call.in.x.device());
  auto next = there.begin();
  if (!Q.empty()) {
    placed.Q = (next++)->to(forward.P.scalar_type());
    placed.offset = (next++)->to(forward.P.scalar_type());
  }
  for (size_t k = 0; k < 3; ++k)
    if (wanted[k + 1]) *gradients[k] = (next++)->to(parameters[k]->scalar_type());
  return placed;
}

/// What the pullback needs of this process's samples; g has the layout of x.
GradientSums layer_sums(const Tensor& g, const Tensor& x, const Call& call, const Made& made) {
  const AffineMap& affine = made.map->affine;
  const core::LayerAlgebra& algebra = call.layer->algebra;
  if (x.numel() == 0) {
    const int64_t n = call.layer->num_features;
    return {core::BlockMatrix(n, algebra.product_block()), core::Vector(n)};
  }
  return kernels::passes_for(x).products(g, x, affine.center, algebra.product_block(), affine.sums,
                                         made.placed);
}

/// Of the gradient where the statistics are constants.
kernels::Placed without_statistics(const kernels::Placed& placed) { return {placed.P, {}, {}, {}}; }

/// Pᵀ G + Q (X − center) + offset, the latter two at the places of the statistics.
Tensor input_gradient(const Tensor& g, const Tensor& x, const Call& call, const LayerMap& map,
                      const core::GradientMap& gradient, const kernels::Placed& placed) {
  if (x.numel() == 0) return at::zeros_like(x);
  const kernels::Passes& passes = kernels::passes_for(x);
  if (call.layer->sample_stride == 1 || gradient.Q.empty())
    return passes.input_gradient(g, x, gradient, placed);
  Tensor dx = passes.input_gradient(g, x, core::gradient_map(map.affine), without_statistics(placed));
  add_statistics_gradient(dx, x, gradient, placed, call.layer->sample_stride);
  return dx;
}

/// From the gradient of Z, which was made of x.
Inputs through_layer(const Tensor& dz, const Call& call, const Made& made, const Wanted& wanted) {
  const LayerMap& map = *made.map;
  const Tensor x = call.in.x.detach(), g = kernels::same_layout(in_type(dz, x), x);
  const LayerWanted parts = layer_wanted(wanted);
  GradientSums sums;
  if (call.layer->algebra.needs_sums(map, parts)) sums = layer_sums(g, x, call, made);
  const LayerGradients layer = begin_pullback(call, map, map.affine, std::move(sums), parts)();
  Inputs out;
  const kernels::Placed placed = put_parameters(out, layer, call, made.placed, wanted);
  if (wanted[0]) out.x = input_gradient(g, x, call, map, layer.input, placed);
  return out;
}

/// From the gradient of Z, which was made of `read`: the statistics' part goes to x, the map's to
/// that.
Inputs through_image(const Tensor& dz, const Call& call, const Made& made, const Wanted& wanted) {
  const LayerMap& map = *made.map;
  const Tensor x = call.in.x.detach(), read = call.in.read.detach();
  const Tensor g = kernels::same_layout(in_type(dz, read), read);
  const LayerWanted parts = layer_wanted(wanted);
  GradientSums sums;
  if (call.layer->algebra.needs_sums(map, parts)) sums = layer_sums(g, read, call, made);
  const LayerGradients layer = begin_pullback(call, map, map.affine, std::move(sums), parts)();
  Inputs out;
  const kernels::Placed placed = put_parameters(out, layer, call, made.placed, wanted);
  if (wanted[0]) {
    out.x = at::zeros_like(x);
    if (!layer.input.Q.empty() && x.numel() > 0)
      add_statistics_gradient(out.x, x, layer.input, placed, call.layer->sample_stride);
  }
  if (wanted[4])
    out.read = read.numel() == 0 ? at::zeros_like(read)
                                 : kernels::passes_for(read).input_gradient(
                                       g, read, core::gradient_map(map.affine),
                                       without_statistics(placed));
  return out;
}

/// In the exact type, of an h in any type.
Tensor channel_sums(const Tensor& h, const Tensor& x) {
  if (h.numel() == 0)
    return at::zeros({h.size(1)}, x.options().dtype(kernels::exact_type(x.device())));
  return kernels::passes_for(h).channel_sums(kernels::dense_layout(in_type(h, x)));
}

/// A batch that was not folded: back through the consumer, then through the layer.
Inputs through_both(const Tensor& dy, const Call& call, const Made& made, const Wanted& wanted) {
  const bool needs_z = wanted[0] || wanted[1] || wanted[2] || wanted[3] || wanted[4];
  const Tensor h = dy.detach(), z = unfolded_input(call, made), weight = call.weight.detach();
  Consumer::Gradients direct;
  if (call.empty())  // its part in what other processes sum up
    direct = {at::zeros_like(z), at::zeros_like(weight)};
  else
    direct = call.consumer->backward(h, z, weight, {needs_z, wanted[5]});
  Inputs out;
  if (needs_z) {
    Tensor dz = direct.input;
    if (!call.padded.empty()) {
      std::vector<int64_t> back;
      for (const int64_t p : call.padded) back.push_back(-p);
      dz = at::constant_pad_nd(dz, back);
    }
    if (call.in.read.defined() && call.padded.empty()) {
      out = through_image(dz, call, made, wanted);
    } else {
      out = through_layer(dz, call, made, wanted);
      if (wanted[4]) out.read = at::zeros_like(call.in.read);
    }
  }
  if (wanted[5]) out.consumer_weight = direct.weight;
  if (wanted[6])
    out.consumer_bias = channel_sums(h, call.in.x).to(call.in.consumer_bias.scalar_type());
  return out;
}

/// Through the folded weights.
Inputs through_folded(const Tensor& dy, const Call& call, const Made& made, const Wanted& wanted) {
  const LayerMap& map = *made.map;
  const core::LayerAlgebra& algebra = call.layer->algebra;
  const Consumer& consumer = *call.consumer;
  const int64_t groups = consumer.groups();
  const bool reads_x = !call.in.read.defined();
  const AffineMap affine = core::without_center(map.affine);
  const Tensor x = call.in.x.detach(), read = call.as_came.detach(), h = dy.detach(),
               weight = in_type(call.weight, x);
  const Tensor folded_weight =
      made.folded_weight.defined() ? made.folded_weight : folded_weights(call, made).weight;
  const LayerWanted parts = layer_wanted(wanted);
  const bool needs_sums = algebra.needs_sums(map, parts), needs_weight = needs_sums || wanted[5];
  const bool wants_direct = reads_x ? wanted[0] : wanted[4];
  // Other processes' sums come in while this one reads on: the weights' gradient first, then.
  const bool apart = wants_direct && needs_sums && sums_over_processes(call, map, parts);
  Consumer::Gradients direct =
      consumer.backward(h, read, folded_weight, {wants_direct && !apart, needs_weight});
  // By a pass of ours, in double: oneDNN's sum in float, multiplied by a mean, would be most of the
  // error of ∇γ and ∇w.
  Tensor sum;
  if (needs_weight || wanted[6]) sum = channel_sums(h, x);
  Inputs out;
  GradientSums sums;
  if (needs_weight) {
    const Tensor samples = as_samples(weight, groups),
                 folded = kernels::same_layout(as_samples(in_type(direct.weight, x), groups),
                                               samples);
    const Tensor by_tap = sums_by_tap(consumer, h, sum, weight);
    if (wanted[5]) 
      out.consumer_weight =
          weight_gradient(folded, by_tap, affine, made.uncentered(), groups);
    if (needs_sums)
      sums = kernels::passes_for(x).weight_products(samples, folded, to_samples(by_tap, groups),
                                                    algebra.product_block(), groups);
  }
  auto pulled_back = begin_pullback(call, map, affine, std::move(sums), parts);
  if (apart) direct.input = consumer.backward(h, read, folded_weight, {true, false}).input;
  const LayerGradients layer = pulled_back();
  const kernels::Placed placed = put_parameters(out, layer, call, made.uncentered(), wanted);
  if (wanted[0]) {
    out.x = reads_x ? kernels::same_layout(in_type(direct.input, x), x) : at::zeros_like(x);
    if (!layer.input.Q.empty())
      add_statistics_gradient(out.x, x, layer.input, placed, call.layer->sample_stride);
  }
  if (wanted[4]) out.read = direct.input;
  if (wanted[6]) out.consumer_bias = sum.to(call.in.consumer_bias.scalar_type());
  return out;
}

}  // namespace

Inputs gradients(const Tensor& grad, const Call& call, const Made& made, const Wanted& wanted) {
  if (!call.consumer) return through_layer(grad, call, made, wanted);
  Inputs out = call.empty() || !call.folds(*made.map) ? through_both(grad, call, made, wanted)
                                                      : through_folded(grad, call, made, wanted);
  if (out.consumer_weight.defined())
    out.consumer_weight = out.consumer_weight.reshape(call.in.consumer_weight.sizes());
  return out;
}

}  // namespace orthobatch::ops
