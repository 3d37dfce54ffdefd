#include "ops/folding.h"

#include <ATen/ATen.h>

#include "kernels/convert.h"
#include "ops/memory.h"

namespace orthobatch::ops {
namespace {

using core::AffineMap;
using core::Vector;

/// A map of the weights' channels alone.
AffineMap linear_map(core::BlockMatrix P) {
  const auto n = static_cast<size_t>(P.size());
  AffineMap map;
  map.P = std::move(P);
  map.center = map.offset = Vector(n);
  return map;
}

Tensor to_taps(const Tensor& by_sample, const Tensor& weight, int64_t groups) {
  std::vector<int64_t> sizes = weight.sizes().vec();
  sizes.erase(sizes.begin() + 1);
  return by_sample.view({sizes[0] / groups, -1, groups}).permute({2, 0, 1}).reshape(sizes);
}

}  // namespace

Tensor to_samples(const Tensor& by_tap, int64_t groups) {
  const int64_t out = by_tap.size(0) / groups;
  return by_tap.reshape({groups, out, -1}).permute({1, 2, 0}).reshape({-1, groups});
}

FoldedWeights folded_weights(const Call& call, const Made& made) {
  const int64_t groups = call.consumer->groups();
  const at::ScalarType type = call.weight.scalar_type();
  const Tensor weight = call.weight.detach().to(call.in.x.scalar_type()),
               samples = as_samples(weight, groups);
  const Tensor& bias = call.in.consumer_bias;
  const AffineMap affine = core::without_center(made.map->affine);
  kernels::Placed transposed;
  if (made.placed.P.defined())
    transposed.P = kernels::transposed_blocks(made.placed.P, affine.P.size(), affine.P.block());
  const kernels::Passes& passes = kernels::passes_for(weight);
  FoldedWeights out;
  out.weight = from_samples(
      passes.transform(samples, linear_map(core::transpose(affine.P)), transposed), groups);
  out.weight = out.weight.to(type);
  out.shares = to_taps(passes.dots(samples, affine.offset, groups, made.q), weight, groups);
  Tensor total = out.shares.reshape({out.shares.size(0), -1}).sum(1);
  if (bias.defined()) total = total + bias.detach().to(out.shares.scalar_type());
  out.bias = total.to(type);
  return out;
}

std::shared_ptr<const FoldedWeights> kept_weights(const Call& call,
                                                  const std::shared_ptr<const Made>& made) {
  static auto* const kept = new Memory<FoldedWeights>;  // never destroyed: threads may outlive main
  const std::vector<Tensor> from = {call.in.consumer_weight, call.in.consumer_bias};
  if (auto known = kept->find(from, made->map)) return known;
  auto weights = std::make_shared<const FoldedWeights>(folded_weights(call, *made));
  kept->put(from, made->map, weights);
  return weights;
}

Tensor folded_output(const Call& call, const FoldedWeights& weights) {
  Tensor y = call.consumer->forward(call.as_came, weights.weight, weights.bias);
  if (const Border* border = call.consumer->border()) border->correct(y, weights.shares);
  return y;
}

Tensor unfolded_input(const Call& call, const Made& made) {
  const Tensor& read = call.padded.empty() ? call.read() : call.in.x;
  const Tensor z =
      read.numel() == 0
          ? read.clone()
          : kernels::passes_for(read).transform(read, made.map->affine, made.placed);
  // Zeros around X are not zeros around Z.
  return call.padded.empty() ? z : at::constant_pad_nd(z, call.padded);
}

Tensor unfolded_output(const Call& call, const Made& made) {
  const Tensor z = unfolded_input(call, made);
  const Tensor& own = call.in.consumer_bias;
  const Tensor bias = own.defined() ? own : at::zeros({call.weight.size(0)}, call.weight.options());
  return call.consumer->forward(z, call.weight, bias);
}

Tensor weight_gradient(const Tensor& folded, const Tensor& by_tap, const AffineMap& affine,
                       const kernels::Placed& placed, int64_t groups) {
  const kernels::Placed linear = {placed.P, {}, {}, {}};
  Tensor out = from_samples(
      kernels::passes_for(folded).transform(folded, linear_map(affine.P), linear), groups);
  std::vector<int64_t> sizes(out.dim(), 1);
  sizes[0] = out.size(0);
  sizes[1] = out.size(1);
  const Tensor q = (placed.P.defined() ? placed.offset : kernels::to_tensor(affine.offset))
                       .to(out.options())
                       .view({groups, 1, -1})
                       .expand({groups, out.size(0) / groups, out.size(1)})
                       .reshape(sizes);
  return out.addcmul_(by_tap.to(out.options()).unsqueeze(1), q);
}

Tensor sums_by_tap(const Consumer& consumer, const Tensor& h, const Tensor& sum,
                   const Tensor& weight) {
  std::vector<int64_t> sizes = weight.sizes().vec(), ones(sizes.size() - 1, 1);
  sizes.erase(sizes.begin() + 1);
  ones[0] = sizes[0];
  const Tensor all = sum.view(ones).expand(sizes);
  const Border* border = consumer.border();
  return border ? all - border->missed(h) : all;
}

}  // namespace orthobatch::ops
