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

/// A gradient in the type of its parameter and on its device.
Tensor like(const core::Vector& v, const Tensor& parameter) {
  return kernels::to_tensor(v).to(parameter.options().requires_grad(false));
}

void put_parameters(Inputs& out, const LayerGradients& layer, const Call& call,
                    const Wanted& wanted) {
  if (wanted[1]) out.weight = like(layer.gamma, call.in.weight);
  if (wanted[2]) out.bias = like(layer.bias, call.in.bias);
  if (wanted[3]) out.skew = like(layer.skew, call.in.skew);
}

/// What the pullback needs of this process's samples; g has the layout of x.
GradientSums layer_sums(const Tensor& g, const Tensor& x, const Call& call, const LayerMap& map) {
  const core::LayerAlgebra& algebra = call.layer->algebra;
  if (x.numel() == 0) {
    const int64_t n = call.layer->num_features;
    return {core::BlockMatrix(n, algebra.product_block()), core::Vector(n)};
  }
  return kernels::passes_for(x).products(g, x, map.affine.center, algebra.product_block(),
                                         map.affine.sums);
}

/// Pᵀ G + Q (X − center) + offset, the latter two at the places of the statistics.
Tensor input_gradient(const Tensor& g, const Tensor& x, const Call& call, const LayerMap& map,
                      const core::GradientMap& gradient) {
  if (x.numel() == 0) return at::zeros_like(x);
  const kernels::Passes& passes = kernels::passes_for(x);
  if (call.layer->sample_stride == 1 || gradient.Q.empty())
    return passes.input_gradient(g, x, gradient);
  Tensor dx = passes.input_gradient(g, x, core::gradient_map(map.affine));
  add_statistics_gradient(dx, x, gradient, call.layer->sample_stride);
  return dx;
}

/// From the gradient of Z, which was made of x.
Inputs through_layer(const Tensor& dz, const Call& call, const LayerMap& map,
                     const Wanted& wanted) {
  const Tensor x = call.in.x.detach(), g = kernels::same_layout(dz.detach(), x);
  const LayerWanted parts = layer_wanted(wanted);
  GradientSums sums;
  if (call.layer->algebra.needs_sums(map, parts)) sums = layer_sums(g, x, call, map);
  const LayerGradients layer = begin_pullback(call, map, map.affine, std::move(sums), parts)();
  Inputs out;
  if (wanted[0]) out.x = input_gradient(g, x, call, map, layer.input);
  put_parameters(out, layer, call, wanted);
  return out;
}

/// From the gradient of Z, which was made of `read`: the statistics' part goes to x, the map's to
/// that.
Inputs through_image(const Tensor& dz, const Call& call, const LayerMap& map,
                     const Wanted& wanted) {
  const Tensor x = call.in.x.detach(), read = call.in.read.detach();
  const Tensor g = kernels::same_layout(dz.detach(), read);
  const LayerWanted parts = layer_wanted(wanted);
  GradientSums sums;
  if (call.layer->algebra.needs_sums(map, parts)) sums = layer_sums(g, read, call, map);
  const LayerGradients layer = begin_pullback(call, map, map.affine, std::move(sums), parts)();
  Inputs out;
  if (wanted[0]) {
    out.x = at::zeros_like(x);
    if (!layer.input.Q.empty() && x.numel() > 0)
      add_statistics_gradient(out.x, x, layer.input, call.layer->sample_stride);
  }
  if (wanted[4])
    out.read = read.numel() == 0 ? at::zeros_like(read)
                                 : kernels::passes_for(read).input_gradient(
                                       g, read, core::gradient_map(map.affine));
  put_parameters(out, layer, call, wanted);
  return out;
}

Tensor channel_sums(const Tensor& h) {
  if (h.numel() == 0) return at::zeros({h.size(1)}, at::kDouble);
  return kernels::to_tensor(kernels::passes_for(h).channel_sums(kernels::dense_layout(h)));
}

/// A batch that was not folded: back through the consumer, then through the layer.
Inputs through_both(const Tensor& dy, const Call& call, const LayerMap& map, const Wanted& wanted) {
  const bool needs_z = wanted[0] || wanted[1] || wanted[2] || wanted[3] || wanted[4];
  const Tensor h = dy.detach(), z = unfolded_input(call, map), weight = call.weight.detach();
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
      out = through_image(dz, call, map, wanted);
    } else {
      out = through_layer(dz, call, map, wanted);
      if (wanted[4]) out.read = at::zeros_like(call.in.read);
    }
  }
  if (wanted[5]) out.consumer_weight = direct.weight;
  if (wanted[6])
    out.consumer_bias = channel_sums(h).to(call.in.consumer_bias.options().requires_grad(false));
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
  const Tensor x = call.in.x.detach(), read = call.read().detach(), weight = call.weight.detach(),
               h = dy.detach();
  const Tensor folded_weight =
      made.folded_weight.defined() ? made.folded_weight : folded_weights(call, affine).weight;
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
  if (needs_weight || wanted[6]) sum = channel_sums(h);
  Inputs out;
  GradientSums sums;
  if (needs_weight) {
    const Tensor samples = as_samples(weight, groups),
                 folded = kernels::same_layout(as_samples(direct.weight, groups), samples);
    const Tensor by_tap = sums_by_tap(consumer, h, sum, weight);
    if (wanted[5]) out.consumer_weight = weight_gradient(folded, by_tap, affine, groups);
    if (needs_sums) {
      const kernels::Passes& passes = kernels::passes_for(x);
      sums.B = passes
                   .products(samples, folded, core::Vector(x.size(1)), algebra.product_block(),
                             core::Sums::in_type)
                   .B;
      sums.sum = passes.weighted_sums(samples, to_samples(by_tap, groups), groups);
    }
  }
  auto pulled_back = begin_pullback(call, map, affine, std::move(sums), parts);
  if (apart) direct.input = consumer.backward(h, read, folded_weight, {true, false}).input;
  const LayerGradients layer = pulled_back();
  if (wanted[0]) {
    out.x = reads_x ? kernels::same_layout(direct.input, x) : at::zeros_like(x);
    if (!layer.input.Q.empty())
      add_statistics_gradient(out.x, x, layer.input, call.layer->sample_stride);
  }
  if (wanted[4]) out.read = direct.input;
  put_parameters(out, layer, call, wanted);
  if (wanted[6]) out.consumer_bias = sum.to(call.in.consumer_bias.options().requires_grad(false));
  return out;
}

}  // namespace

Inputs gradients(const Tensor& grad, const Call& call, const Made& made, const Wanted& wanted) {
  const LayerMap& map = *made.map;
  if (!call.consumer) return through_layer(grad, call, map, wanted);
  Inputs out = call.empty() || !call.folds(map) ? through_both(grad, call, map, wanted)
                                                : through_folded(grad, call, made, wanted);
  if (out.consumer_weight.defined())
    out.consumer_weight = out.consumer_weight.reshape(call.in.consumer_weight.sizes());
  return out;
}

}  // namespace orthobatch::ops
