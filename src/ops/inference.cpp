// Layers for inference: in the weights of a neighbour, or by themselves.
//
//   behind a convolution (w, c):   P (w x + c − center) + offset = (P w) x + P (c − center) + offset
//   before one:                    w (P x + q) + c               = (w P) x + Σ_t w_t q + c
//
// All of it in double.

#include <ATen/ATen.h>

#include "kernels/convert.h"
#include "ops/call.h"
#include "ops/operators.h"

namespace orthobatch::ops::inference {
namespace {

/// What `average_map` returns.
struct Map {
  explicit Map(at::TensorList parts) {
    TORCH_CHECK(parts.size() == 4, "expected the four tensors of average_map, got ", parts.size());
    P = parts[0];
    center = parts[1];
    offset = parts[2];
    const int64_t n = P.dim() == 2 ? P.size(0) : 0;
    TORCH_CHECK(n > 0 && P.size(1) == n && center.sizes() == at::IntArrayRef({n}) &&
                    offset.sizes() == at::IntArrayRef({n}) && parts[3].numel() == 2,
                "expected a map as average_map makes it, got sizes ", P.sizes(), ", ",
                center.sizes(), ", ", offset.sizes(), ", ", parts[3].sizes());
    for (const Tensor& part : parts)
      TORCH_CHECK(part.scalar_type() == at::kDouble && part.is_cpu(),
                  "expected a map in double on the CPU, got ", part.scalar_type(), " on ",
                  part.device());
    block = std::max<int64_t>(parts[3][0].item<int64_t>(), 1);
    exact_uncentered = parts[3][1].item<bool>();
  }
  /// Throws where the weight of a module has other channels on the side of the map.
  void check_weight(const Tensor& weight, int64_t groups, int64_t outputs_side) const {
    TORCH_CHECK(groups >= 1 && weight.dim() >= 2 && weight.size(0) % groups == 0 &&
                    channels() % groups == 0 && outputs_side == channels(),
                "expected a module of ", channels(), " channels in ", groups,
                " groups beside the map, got a weight of size ", weight.sizes());
  }
  Tensor P, center, offset;
  int64_t block;
  bool exact_uncentered;

  int64_t channels() const { return P.size(0); }
  Tensor q() const { return offset - P.mv(center); }
  /// Whether groups of channels that are read apart are whitened apart.
  bool apart(int64_t groups) const {
    return groups == 1 || (channels() % groups == 0 && channels() / groups % block == 0);
  }
  /// The part of P in each of the groups: (groups, C/groups, C/groups).
  Tensor parts(int64_t groups) const {
    const int64_t width = channels() / groups;
    return P.view({groups, width, groups, width}).diagonal(0, 0, 2).permute({2, 0, 1});
  }
};

Tensor exact(const Tensor& t) { return t.detach().to(at::kCPU).to(at::kDouble); }

Tensor bias_or_zeros(const OptionalTensor& bias, int64_t outputs) {
  return bias.has_value() ? exact(*bias) : at::zeros({outputs}, at::kDouble);
}

}  // namespace

std::vector<Tensor> average_map(const OptionalTensor& weight, const OptionalTensor& bias,
                                const OptionalTensor& skew, const Tensor& mean,
                                const Tensor& statistic, const OptionalTensor& last,
                                string_view text) {
  const auto layer = layer_of(text);
  Inputs in;
  in.weight = value_or_none(weight);
  in.bias = value_or_none(bias);
  in.skew = value_or_none(skew);
  check_parameters(*layer, in);
  const MapPointer map = made_of(*layer, in, {mean, statistic, value_or_none(last)})->map;
  const core::AffineMap& affine = map->affine;
  return {kernels::to_tensor(affine.P.dense()), kernels::to_tensor(affine.center),
          kernels::to_tensor(affine.offset),
          kernels::to_tensor(core::Vector{static_cast<double>(affine.P.block()),
                                          affine.exact_uncentered ? 1.0 : 0.0})};
}

std::vector<Tensor> fold_behind(at::TensorList parts, const Tensor& module_weight,
                                const OptionalTensor& module_bias, int64_t groups,
                                bool transposed) {
  const Map map(parts);
  map.check_weight(module_weight, groups,
                   transposed ? module_weight.size(1) * groups : module_weight.size(0));
  if (!map.exact_uncentered || !map.apart(groups)) return {};
  const Tensor weight = exact(module_weight);
  const int64_t n = map.channels(), width = n / groups;
  const Tensor bias = map.P.mv(bias_or_zeros(module_bias, n) - map.center) + map.offset;
  if (transposed) {  // (C_in, C_out/groups, taps…)
    const Tensor apart = weight.reshape({groups, weight.size(0) / groups, width, -1});
    return {at::einsum("gdc,gict->gidt", {map.parts(groups), apart}).reshape(weight.sizes()), bias};
  }
  const Tensor rows = weight.reshape({groups, width, -1});
  return {at::bmm(map.parts(groups), rows).reshape(weight.sizes()), bias};
}

std::vector<Tensor> fold_before(at::TensorList parts, const Tensor& module_weight,
                                const OptionalTensor& module_bias, int64_t groups,
                                bool pads_zeros) {
  const Map map(parts);
  map.check_weight(module_weight, groups, module_weight.size(1) * groups);
  if (!map.exact_uncentered || !map.apart(groups)) return {};
  const Tensor q = map.q();
  if (pads_zeros && q.count_nonzero().item<int64_t>() > 0) return {};
  const Tensor weight = exact(module_weight);
  const int64_t width = map.channels() / groups;
  const Tensor apart = weight.reshape({groups, weight.size(0) / groups, width, -1});
  return {at::einsum("goct,gcd->godt", {apart, map.parts(groups)}).reshape(weight.sizes()),
          bias_or_zeros(module_bias, weight.size(0)) +
              at::einsum("goct,gc->go", {apart, q.view({groups, width})}).reshape({-1})};
}

std::vector<Tensor> fold_alone(at::TensorList parts) {
  const Map map(parts);
  const int64_t n = map.channels(), groups = n % map.block == 0 ? n / map.block : 1;
  const Tensor weight = map.parts(groups).reshape({n, n / groups});
  if (map.exact_uncentered) return {weight, map.q()};
  return {at::ones({n, 1}, at::kDouble), -map.center, weight, map.offset};
}

}  // namespace orthobatch::ops::inference
