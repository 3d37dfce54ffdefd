// A Sequential for inference: every BatchOrtho layer in the weights of a neighbour.
//
//   behind a convolution (w, c):   P (w x + c − center) + offset = (P w) x + P (c − center) + offset
//   before one:                    w (P x + q) + c               = (w P) x + Σ_t w_t q + c
//
// All of it in double; the weights keep their type.

#include <torch/torch.h>

#include "kernels/convert.h"
#include "nn/layer_run.h"
#include "nn/sequential.h"

namespace orthobatch {

using torch::Tensor;

PointwiseAffineImpl::PointwiseAffineImpl(int64_t channels) : channels_(channels) { reset(); }

void PointwiseAffineImpl::reset() {
  weight = register_parameter("weight", torch::eye(channels_));
  bias = register_parameter("bias", torch::zeros({channels_}));
}

void PointwiseAffineImpl::pretty_print(std::ostream& stream) const {
  stream << "orthobatch::PointwiseAffine(" << channels_ << ")";
}

Tensor PointwiseAffineImpl::forward(const Tensor& input) {
  if (input.dim() == 2) return torch::linear(input, weight, bias);
  return torch::conv1d(input, weight.unsqueeze(2), bias);
}

namespace {

using nn::as;
using nn::Element;

/// A layer in evaluation: P (x − center) + offset; double, on the CPU.
struct Map {
  Tensor P, center, offset;
  int64_t block = 1;  // P has nothing outside blocks of so many channels …
  bool folds = true;  // … and P x + q is as exact
  Tensor like;        // of the layer's type and device

  int64_t channels() const { return P.size(0); }
  Tensor q() const { return offset - P.mv(center); }
  /// Whether groups of channels that are read apart are whitened apart.
  bool apart(int64_t groups) const { return groups == 1 || channels() / groups % block == 0; }
  /// The part of P in each of the groups: (groups, C/groups, C/groups).
  Tensor parts(int64_t groups) const {
    const int64_t width = channels() / groups;
    return P.view({groups, width, groups, width}).diagonal(0, 0, 2).permute({2, 0, 1});
  }
};

Map map_of(BatchOrthoLayer& norm) {
  const nn::LayerCall call = nn::LayerRun::on_average(norm);
  const core::AffineMap& map = call.fold->map;
  return {kernels::to_tensor(map.P.dense()),
          kernels::to_tensor(map.center),
          kernels::to_tensor(map.offset),
          map.P.block(),
          map.folds,
          norm.running_mean};
}

Tensor exact(const Tensor& t) { return t.detach().to(torch::kCPU, torch::kDouble); }

Tensor bias_or_zeros(const Tensor& bias, int64_t outputs) {
  return bias.defined() ? exact(bias) : torch::zeros({outputs}, torch::kDouble);
}

/// A module of the options with other weights; what gradients were wanted of is kept.
template <typename Holder>
torch::nn::AnyModule with_weights(Holder module, const Tensor& weight, const Tensor& bias,
                                  const Tensor& like) {
  const auto put = [&](Tensor& parameter, const Tensor& value) {
    const Tensor typed = value.reshape(parameter.sizes()).to(like.device(), like.scalar_type());
    parameter.set_data(typed.contiguous(like.dim() == typed.dim()
                                            ? like.suggest_memory_format()
                                            : torch::MemoryFormat::Contiguous));
    parameter.set_requires_grad(like.requires_grad());
  };
  put(module->weight, weight);
  put(module->bias, bias);
  return torch::nn::AnyModule(module);
}

template <size_t D>
torch::nn::AnyModule conv_like(const typename nn::Modules<D>::Conv::ContainedType& conv,
                               const Tensor& weight, const Tensor& bias) {
  typename nn::Modules<D>::Conv out(nn::conv_options<D>(conv.options).bias(true));
  return with_weights(out, weight, bias, conv.weight);
}

torch::nn::AnyModule linear_like(const torch::nn::LinearImpl& linear, const Tensor& weight,
                                 const Tensor& bias) {
  const auto& o = linear.options;
  return with_weights(torch::nn::Linear(o.in_features(), o.out_features()), weight, bias,
                      linear.weight);
}

/// P (w x + c) + q: false where something mixes what the convolution keeps apart.
bool fold_into_former(torch::nn::AnyModule& former, const Map& map, size_t dims) {
  const auto parts_of = [&](const auto& module, int64_t groups) {
    const Tensor weight = exact(module.weight);
    const Tensor bias = bias_or_zeros(module.bias, weight.size(0));
    const Tensor rows = weight.reshape({groups, map.channels() / groups, -1});
    return std::make_pair(torch::bmm(map.parts(groups), rows),
                          map.P.mv(bias - map.center) + map.offset);
  };
  const auto into_conv = [&](auto dimension) {
    constexpr size_t D = decltype(dimension)::value;
    const auto conv = as<typename nn::Modules<D>::Conv::ContainedType>(former);
    if (!conv || dims != D || !map.apart(conv->options.groups())) return false;
    const auto [weight, bias] = parts_of(*conv, conv->options.groups());
    former = conv_like<D>(*conv, weight, bias);
    return true;
  };
  if (into_conv(std::integral_constant<size_t, 1>()) ||
      into_conv(std::integral_constant<size_t, 2>()) ||
      into_conv(std::integral_constant<size_t, 3>()))
    return true;
  const auto linear = as<torch::nn::LinearImpl>(former);
  if (!linear || dims != 1) return false;
  const auto [weight, bias] = parts_of(*linear, 1);
  former = linear_like(*linear, weight, bias);
  return true;
}

template <size_t D>
bool pads_zeros(const typename nn::Modules<D>::Conv::ContainedType& conv) {
  if (nn::padding_mode(conv.options) != "kZeros") return false;
  for (const auto& [first, last] : nn::paddings<D>(conv.options))
    if (first + last > 0) return true;
  return false;
}

/// w (P x + q) + c: not where zeros stand around P x + q.
template <size_t D>
bool fold_into_conv(torch::nn::AnyModule& next, const Map& map) {
  const auto conv = as<typename nn::Modules<D>::Conv::ContainedType>(next);
  if (!conv) return false;
  const int64_t groups = conv->options.groups();
  const Tensor q = map.q();
  if (!map.apart(groups) || (pads_zeros<D>(*conv) && q.count_nonzero().item<int64_t>() > 0))
    return false;
  const Tensor weight = exact(conv->weight);
  const int64_t width = map.channels() / groups;
  const Tensor apart = weight.reshape({groups, weight.size(0) / groups, width, -1});
  next = conv_like<D>(
      *conv, torch::einsum("goct,gcd->godt", {apart, map.parts(groups)}),
      bias_or_zeros(conv->bias, weight.size(0)) +
          torch::einsum("goct,gc->go", {apart, q.view({groups, width})}).reshape({-1}));
  return true;
}

void fold_into_linear(torch::nn::AnyModule& next, const Map& map) {
  const auto linear = as<torch::nn::LinearImpl>(next);
  const Tensor weight =
      exact(linear->weight).view({linear->options.out_features(), map.channels(), -1});
  next = linear_like(
      *linear, torch::einsum("ocp,cd->odp", {weight, map.P}),
      bias_or_zeros(linear->bias, weight.size(0)) + torch::einsum("ocp,c->o", {weight, map.q()}));
}

/// The parts of a map that no neighbour takes, as 1×1 convolutions: of x, or, where that is not
/// exact enough, of x − center.
template <size_t D>
std::vector<torch::nn::AnyModule> stand_alone(const Map& map) {
  const int64_t n = map.channels();
  const auto pointwise = [&](int64_t groups, const Tensor& weight, const Tensor& bias) {
    typename nn::Modules<D>::Conv conv(torch::nn::ConvOptions<D>(n, n, 1).groups(groups));
    return with_weights(conv, weight, bias, map.like);
  };
  const int64_t groups = n % map.block == 0 ? n / map.block : 1;
  if (map.folds) return {pointwise(groups, map.parts(groups), map.q())};
  return {pointwise(n, torch::ones({n}, torch::kDouble), -map.center),
          pointwise(groups, map.parts(groups), map.offset)};
}

template <>
std::vector<torch::nn::AnyModule> stand_alone<1>(const Map& map) {
  const auto pointwise = [&](const Tensor& weight, const Tensor& bias) {
    return with_weights(PointwiseAffine(map.channels()), weight, bias, map.like);
  };
  if (map.folds) return {pointwise(map.P, map.q())};
  return {pointwise(torch::eye(map.channels(), torch::kDouble), -map.center),
          pointwise(map.P, map.offset)};
}

/// Where the layer at `at` is one of D directions, puts it into a neighbour or a convolution of its
/// own stands in its place.
template <size_t D>
bool replace_layer(std::vector<Element>& all, size_t at) {
  const auto norm = as<typename nn::Modules<D>::Norm::ContainedType>(all[at].module);
  if (!norm) return false;
  const Map map = map_of(*norm);
  const auto remove = [&] { all.erase(all.begin() + static_cast<int64_t>(at)); };
  if (map.folds) {
    if (at > 0 && fold_into_former(all[at - 1].module, map, D)) return remove(), true;
    if (at + 1 < all.size() && fold_into_conv<D>(all[at + 1].module, map)) return remove(), true;
    if (const nn::LinearBehind behind = nn::linear_behind(all, at, *norm); behind.linear) {
      fold_into_linear(all[at + behind.distance].module, map);
      return remove(), true;
    }
  }
  std::vector<torch::nn::AnyModule> own = stand_alone<D>(map);
  all[at].module = own.back();
  if (own.size() > 1)
    all.insert(all.begin() + static_cast<int64_t>(at), {all[at].name + "_center", own.front()});
  return true;
}

/// A pair that fold_training joined, as the modules it was made of.
template <size_t D>
bool take_apart_conv(const Element& element, std::vector<Element>& out) {
  const auto pair = as<typename nn::Modules<D>::Folded::ContainedType>(element.module);
  if (!pair) return false;
  out.push_back({element.name + "_norm", torch::nn::AnyModule(pair->norm)});
  out.push_back({element.name, torch::nn::AnyModule(pair->conv)});
  return true;
}

template <size_t D>
bool take_apart_linear(const Element& element, std::vector<Element>& out) {
  using Norm = typename nn::Modules<D>::Norm;
  const auto pair = as<FoldedLinearImpl>(element.module);
  const auto norm =
      pair ? std::dynamic_pointer_cast<typename Norm::ContainedType>(pair->norm) : nullptr;
  if (!norm) return false;
  out.push_back({element.name + "_norm", torch::nn::AnyModule(Norm(norm))});
  if (pair->pooling() == Pooling::average) {
    const std::string name = element.name + "_average";
    if constexpr (D == 1)
      out.push_back({name, torch::nn::AnyModule(torch::nn::AdaptiveAvgPool1d(1))});
    else if constexpr (D == 2)
      out.push_back({name, torch::nn::AnyModule(torch::nn::AdaptiveAvgPool2d(1))});
    else
      out.push_back({name, torch::nn::AnyModule(torch::nn::AdaptiveAvgPool3d(1))});
  }
  out.push_back({element.name + "_flatten", torch::nn::AnyModule(torch::nn::Flatten())});
  const auto& linear = *pair->linear;
  out.push_back({element.name, linear_like(linear, exact(linear.weight) * pair->scale,
                                           bias_or_zeros(linear.bias, linear.weight.size(0)))});
  return true;
}

std::vector<Element> taken_apart(const torch::nn::Sequential& net) {
  std::vector<Element> out;
  for (const Element& element : nn::elements_of(net)) {
    const auto own = std::dynamic_pointer_cast<BatchOrthoLayer>(element.module.ptr());
    if (own) {
      out.push_back(element);
    } else if (!take_apart_conv<1>(element, out) && !take_apart_conv<2>(element, out) &&
               !take_apart_conv<3>(element, out) && !take_apart_linear<1>(element, out) &&
               !take_apart_linear<2>(element, out) && !take_apart_linear<3>(element, out)) {
      const auto inside = layers_of(*element.module.ptr());
      TORCH_CHECK(inside.empty(), "fold: expected layers that are elements of the Sequential, got ",
                  inside.front().second->description(), " inside element '", element.name,
                  "', whose way through it cannot be seen");
      out.push_back({element.name, element.module.clone()});
    }
  }
  return out;
}

}  // namespace

torch::nn::Sequential fold(const torch::nn::Sequential& net) {
  TORCH_CHECK(!net.is_empty(), "fold: expected a Sequential, got none");
  const torch::NoGradGuard no_grad;
  std::vector<Element> all = taken_apart(net);
  for (size_t at = 0; at < all.size();) {
    const size_t before = all.size();
    const bool ours =
        replace_layer<1>(all, at) || replace_layer<2>(all, at) || replace_layer<3>(all, at);
    if (!ours || all.size() >= before) at += 1 + all.size() - before;
  }
  torch::nn::Sequential out;
  for (Element& element : all) out->push_back(element.name, std::move(element.module));
  out->eval();
  return out;
}

}  // namespace orthobatch
