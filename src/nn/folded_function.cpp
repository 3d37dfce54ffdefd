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

class FoldedFunction : public torch::autograd::Function<FoldedFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x,
                               const torch::Tensor& read, const torch::Tensor& gamma,
                               const torch::Tensor& b, const torch::Tensor& skew,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               FoldedCall call) {
    const FoldedWeights folded = folded_weights(call, weight, bias);
    const bool reads_x = read.numel() == 0;
    torch::Tensor y = call.reader->forward(reads_x ? x : read, folded.weight, folded.bias);
    if (const Border* border = call.reader->border()) border->correct(y, folded.shares);
    ctx->save_for_backward({x, read, gamma, b, skew, weight, bias, folded.weight});
    keep(ctx, std::move(call));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    const FoldedCall& call = kept<FoldedCall>(ctx);
    const core::LayerAlgebra& algebra = *call.layer.algebra;
    const core::Fold& fold = *call.layer.fold;
    const variable_list saved = ctx->get_saved_variables();
    const torch::Tensor x = saved[0].detach(), read = saved[1].detach(), weight = saved[5].detach(),
                        folded_weight = saved[7];
    const torch::Tensor h = grad_outputs[0].detach();
    const auto wants = [&](size_t input) { return ctx->needs_input_grad(input); };
    const bool reads_x = read.numel() == 0;
    const core::LayerAlgebra::Wanted wanted = {wants(2) || wants(3) || wants(4), wants(0)};
    const bool needs_sums = algebra.needs_sums(fold, wanted), needs_weight = needs_sums || wants(5);

    Reader::Gradients direct = call.reader->backward(h, reads_x ? x : read, folded_weight,
                                                     {wants(reads_x ? 0 : 1), needs_weight});
    // By a pass of ours, in double: oneDNN's sum in float, multiplied by a mean, would be most of
    // the error of ∇γ and ∇w.
    torch::Tensor sum;
    if (needs_weight || wants(6))
      sum = kernels::to_tensor(kernels::passes_for(h).channel_sums(kernels::dense_layout(h)));
    variable_list grads(8);  // x, read, γ, b, S, weight, bias, and the call, which has none
    core::GradientSums sums;
    if (needs_weight) {
      const int64_t groups = call.reader->groups();
      const torch::Tensor samples = as_samples(weight, groups),
                          folded = kernels::same_layout(as_samples(direct.weight, groups), samples);
      const torch::Tensor by_tap = sums_by_tap(call, h, sum, weight);
      if (wants(5)) grads[5] = weight_gradient(folded, by_tap, call.map, groups);
      if (needs_sums) {
        sums.B = kernels::passes_for(x)
                     .products(samples, folded, Vector(x.size(1)), algebra.product_block(),
                               core::Sums::in_type)
                     .B;
        sums.sum =
            kernels::passes_for(x).weighted_sums(samples, to_samples(by_tap, groups), groups);
      }
    }
    const core::LayerGradients layer =
        algebra.pullback(fold, call.map, call.layer.parameters, std::move(sums), wanted);
    if (wants(0)) grads[0] = x_gradient(call, x, direct.input, reads_x, layer.input);
    if (wants(1)) grads[1] = direct.input;
    if (wants(2)) grads[2] = like(layer.gamma, saved[2]);
    if (wants(3)) grads[3] = like(layer.bias, saved[3]);
    if (wants(4)) grads[4] = like(layer.skew, saved[4]);
    if (wants(6)) grads[6] = sum.to(saved[6].options().requires_grad(false));
    if (torch::GradMode::is_enabled()) {
      variable_list depends(saved.begin(), saved.begin() + 7);
      depends.push_back(grad_outputs[0]);
      return refuse_second_derivative(std::move(grads), depends, call.layer.description);
    }
    return grads;
  }

 private:
  /// s: the sum of h over samples and the places where each tap is inside, (C_out, taps…).
  static torch::Tensor sums_by_tap(const FoldedCall& call, const torch::Tensor& h,
                                   const torch::Tensor& sum, const torch::Tensor& weight) {
    std::vector<int64_t> sizes = weight.sizes().vec(), ones(sizes.size() - 1, 1);
    sizes.erase(sizes.begin() + 1);
    ones[0] = sizes[0];
    const torch::Tensor all = sum.view(ones).expand(sizes);
    const Border* border = call.reader->border();
    return border ? all - border->missed(h) : all;
  }

  /// What the reader gives, where it reads x itself, and what the statistics add.
  static torch::Tensor x_gradient(const FoldedCall& call, const torch::Tensor& x,
                                  const torch::Tensor& direct, bool reads_x,
                                  const core::GradientMap& map) {
    torch::Tensor dx = reads_x ? kernels::same_layout(direct, x) : torch::zeros_like(x);
    if (!map.Q.empty()) add_statistics_gradient(dx, x, map, call.layer.sample_stride);
    return dx;
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

torch::Tensor apply_folded(const torch::Tensor& x, const torch::Tensor& read,
                           const torch::Tensor& gamma, const torch::Tensor& b,
                           const torch::Tensor& skew, const torch::Tensor& weight,
                           const torch::Tensor& bias, FoldedCall call) {
  return FoldedFunction::apply(x, present(read, x), present(gamma, x), present(b, x),
                               present(skew, x), weight, present(bias, x), std::move(call));
}

}  // namespace orthobatch::nn
