#include "nn/folded_function.h"

#include <torch/torch.h>

#include "kernels/convert.h"
#include "nn/autograd.h"
#include "nn/sampling.h"

namespace orthobatch::nn {
namespace {

using core::AffineMap;
using core::BlockMatrix;
using core::Vector;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A map of the weights' channels alone.
AffineMap linear_map(BlockMatrix P) {
  const auto n = static_cast<size_t>(P.size());
  AffineMap map;
  map.P = std::move(P);
  map.center = map.offset = Vector(n);
  return map;
}

// Values by output channel and tap, (C_out, taps…), and as the passes take them: by sample, which
// is an output channel of a group and a tap, and group.
Vector to_samples(const torch::Tensor& by_tap, int64_t groups) {
  const int64_t out = by_tap.size(0) / groups;
  return kernels::to_vector(by_tap.reshape({groups, out, -1}).permute({1, 2, 0}));
}
torch::Tensor to_taps(const Vector& by_sample, const torch::Tensor& weight, int64_t groups) {
  std::vector<int64_t> sizes = weight.sizes().vec();
  sizes.erase(sizes.begin() + 1);
  return kernels::to_tensor(by_sample)
      .view({sizes[0] / groups, -1, groups})
      .permute({2, 0, 1})
      .reshape(sizes);
}

/// ∇w = ∇w̃ Pᵀ + s qᵀ, in the layout of the weight.
torch::Tensor weight_gradient(const torch::Tensor& folded, const torch::Tensor& by_tap,
                              const AffineMap& map, int64_t groups) {
  torch::Tensor out =
      from_samples(kernels::passes_for(folded).transform(folded, linear_map(map.P)), groups);
  std::vector<int64_t> sizes(out.dim(), 1);
  sizes[0] = out.size(0);
  sizes[1] = out.size(1);
  const torch::Tensor q = kernels::to_tensor(map.offset)
                              .to(out.options())
                              .view({groups, 1, -1})
                              .expand({groups, out.size(0) / groups, out.size(1)})
                              .reshape(sizes);
  return out.addcmul_(by_tap.to(out.options()).unsqueeze(1), q);
}

/// s: the sum of h over samples and the places where each tap is inside, (C_out, taps…).
torch::Tensor sums_by_tap(const FoldedCall& call, const torch::Tensor& h, const torch::Tensor& sum,
                          const torch::Tensor& weight) {
  std::vector<int64_t> sizes = weight.sizes().vec(), ones(sizes.size() - 1, 1);
  sizes.erase(sizes.begin() + 1);
  ones[0] = sizes[0];
  const torch::Tensor all = sum.view(ones).expand(sizes);
  const Border* border = call.reader->border();
  return border ? all - border->missed(h) : all;
}

/// What the reader gives, where it reads x itself, and what the statistics add.
torch::Tensor x_gradient(const FoldedCall& call, const torch::Tensor& x,
                         const torch::Tensor& direct, bool reads_x, const core::GradientMap& map) {
  torch::Tensor dx = reads_x ? kernels::same_layout(direct, x) : torch::zeros_like(x);
  if (!map.Q.empty()) add_statistics_gradient(dx, x, map, call.layer.sample_stride);
  return dx;
}

bool reads_itself(const torch::Tensor& read) { return !read.defined() || read.numel() == 0; }

class FoldedFunction : public torch::autograd::Function<FoldedFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x,
                               const torch::Tensor& read, const torch::Tensor& gamma,
                               const torch::Tensor& b, const torch::Tensor& skew,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               FoldedCall call) {
    const FoldedWeights folded = folded_weights(call, weight, bias);
    torch::Tensor y = folded_output(reads_itself(read) ? x : read, folded, *call.reader);
    ctx->save_for_backward({x, read, gamma, b, skew, weight, bias, folded.weight});
    keep(ctx, std::move(call));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    const FoldedCall& call = kept<FoldedCall>(ctx);
    const variable_list t = ctx->get_saved_variables();
    std::array<bool, 7> wanted;
    for (size_t k = 0; k < wanted.size(); ++k) wanted[k] = ctx->needs_input_grad(k);
    FoldedTensors d = folded_gradients(grad_outputs[0], {t[0], t[1], t[2], t[3], t[4], t[5], t[6]},
                                       t[7], call, wanted);
    variable_list grads = {d.x, d.read, d.gamma, d.b, d.skew, d.weight, d.bias, {}};
    if (!torch::GradMode::is_enabled()) return grads;
    variable_list depends(t.begin(), t.begin() + 7);
    depends.push_back(grad_outputs[0]);
    return refuse_second_derivative(std::move(grads), depends, call.layer.description);
  }
};

}  // namespace

bool folds(const LayerCall& layer, const Reader& reader) {
  const AffineMap& map = layer.fold->map;
  const int64_t width = map.P.size() / reader.groups();
  return map.folds && (reader.groups() == 1 || width % map.P.block() == 0);
}

FoldedCall fold_call(LayerCall layer, std::shared_ptr<const Reader> reader) {
  AffineMap map = core::without_center(layer.fold->map);
  return {std::move(layer), std::move(map), std::move(reader)};
}

FoldedWeights folded_weights(const FoldedCall& call, const torch::Tensor& weight,
                             const torch::Tensor& bias) {
  const AffineMap& map = call.map;
  const int64_t groups = call.reader->groups();
  const torch::Tensor samples = as_samples(weight.detach(), groups);
  FoldedWeights out;
  out.weight = from_samples(
      kernels::passes_for(weight).transform(samples, linear_map(core::transpose(map.P))), groups);
  out.shares =
      to_taps(kernels::passes_for(weight).dots(samples, map.offset, groups), weight, groups);
  torch::Tensor total = out.shares.reshape({out.shares.size(0), -1}).sum(1);
  if (bias.defined() && bias.numel() > 0) total = total + bias.detach().to(torch::kDouble);
  out.bias = total.to(weight.options().requires_grad(false));
  return out;
}

torch::Tensor folded_output(const torch::Tensor& read, const FoldedWeights& weights,
                            const Reader& reader) {
  torch::Tensor y = reader.forward(read, weights.weight, weights.bias);
  if (const Border* border = reader.border()) border->correct(y, weights.shares);
  return y;
}

FoldedTensors folded_gradients(const torch::Tensor& dy, const FoldedTensors& at,
                               const torch::Tensor& folded_weight, const FoldedCall& call,
                               std::array<bool, 7> wanted) {
  const auto [wants_x, wants_read, wants_gamma, wants_b, wants_skew, wants_weight, wants_bias] =
      wanted;
  const core::LayerAlgebra& algebra = *call.layer.algebra;
  const core::Fold& fold = *call.layer.fold;
  const bool reads_x = reads_itself(at.read);
  const torch::Tensor x = at.x.detach(), read = reads_x ? x : at.read.detach(),
                      weight = at.weight.detach(), h = dy.detach();
  const core::LayerAlgebra::Wanted parts = {wants_gamma || wants_b || wants_skew, wants_x};
  const bool needs_sums = algebra.needs_sums(fold, parts),
             needs_weight = needs_sums || wants_weight;

  const bool wants_direct = reads_x ? wants_x : wants_read;
  // Other ranks' sums come in while this one reads on: the weights' gradient first, then.
  const bool apart = wants_direct && needs_sums && sums_over_ranks(call.layer, parts);
  Reader::Gradients direct =
      call.reader->backward(h, read, folded_weight, {wants_direct && !apart, needs_weight});
  // By a pass of ours, in double: oneDNN's sum in float, multiplied by a mean, would be most of
  // the error of ∇γ and ∇w.
  torch::Tensor sum;
  if (needs_weight || wants_bias)
    sum = kernels::to_tensor(kernels::passes_for(h).channel_sums(kernels::dense_layout(h)));
  FoldedTensors out;
  core::GradientSums sums;
  if (needs_weight) {
    const int64_t groups = call.reader->groups();
    const torch::Tensor samples = as_samples(weight, groups),
                        folded = kernels::same_layout(as_samples(direct.weight, groups), samples);
    const torch::Tensor by_tap = sums_by_tap(call, h, sum, weight);
    if (wants_weight) out.weight = weight_gradient(folded, by_tap, call.map, groups);
    if (needs_sums) {
      sums.B = kernels::passes_for(x)
                   .products(samples, folded, Vector(x.size(1)), algebra.product_block(),
                             core::Sums::in_type)
                   .B;
      sums.sum = kernels::passes_for(x).weighted_sums(samples, to_samples(by_tap, groups), groups);
    }
  }
  auto pulled_back = begin_pull_back(call.layer, call.map, std::move(sums), parts);
  if (apart) direct.input = call.reader->backward(h, read, folded_weight, {true, false}).input;
  const core::LayerGradients layer = pulled_back();
  if (wants_x) out.x = x_gradient(call, x, direct.input, reads_x, layer.input);
  if (wants_read) out.read = direct.input;
  if (wants_gamma) out.gamma = like(layer.gamma, at.gamma);
  if (wants_b) out.b = like(layer.bias, at.b);
  if (wants_skew) out.skew = like(layer.skew, at.skew);
  if (wants_bias) out.bias = sum.to(at.bias.options().requires_grad(false));
  return out;
}

torch::Tensor apply_folded(const torch::Tensor& x, const torch::Tensor& read,
                           const torch::Tensor& gamma, const torch::Tensor& b,
                           const torch::Tensor& skew, const torch::Tensor& weight,
                           const torch::Tensor& bias, FoldedCall call) {
  return FoldedFunction::apply(x, present(read, x), present(gamma, x), present(b, x),
                               present(skew, x), weight, present(bias, x), std::move(call));
}

}  // namespace orthobatch::nn
