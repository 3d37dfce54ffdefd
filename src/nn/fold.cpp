// A Sequential for inference: every BatchOrtho layer in the weights of a neighbour. The weights are
// made in double (ops/inference.cpp) and keep their type.

#include <torch/torch.h>

#include "nn/layer.h"
#include "nn/sequential.h"
#include "ops/operators.h"
#include "orthobatch/tools.h"

namespace orthobatch {

using ops::optional;
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

using Map = std::vector<Tensor>;  // as operators hand it on

/// The map behind a module, in its weights: false where it cannot be.
bool fold_into_former(torch::nn::AnyModule& former, const Map& map, size_t dims) {
  const auto into_conv = [&](auto dimension) {
    constexpr size_t D = decltype(dimension)::value;
    const auto conv = as<typename nn::Modules<D>::Conv::ContainedType>(former);
    if (!conv || dims != D) return false;
    const std::vector<Tensor> folded = ops::inference::fold_behind(
        map, conv->weight, optional(conv->bias), conv->options.groups(), /*transposed=*/false);
    if (folded.empty()) return false;
    former = conv_like<D>(*conv, folded[0], folded[1]);
    return true;
  };
  if (into_conv(std::integral_constant<size_t, 1>()) ||
      into_conv(std::integral_constant<size_t, 2>()) ||
      into_conv(std::integral_constant<size_t, 3>()))
    return true;
  const auto linear = as<torch::nn::LinearImpl>(former);
  if (!linear || dims != 1) return false;
  const std::vector<Tensor> folded =
      ops::inference::fold_behind(map, linear->weight, optional(linear->bias), 1, false);
  if (folded.empty()) return false;
  former = linear_like(*linear, folded[0], folded[1]);
  return true;
}

template <size_t D>
bool pads_zeros(const typename nn::Modules<D>::Conv::ContainedType& conv) {
  if (nn::padding_mode(conv.options) != "kZeros") return false;
  for (const auto& [first, last] : nn::paddings<D>(conv.options))
    if (first + last > 0) return true;
  return false;
}

template <size_t D>
bool fold_into_conv(torch::nn::AnyModule& next, const Map& map) {
  const auto conv = as<typename nn::Modules<D>::Conv::ContainedType>(next);
  if (!conv) return false;
  const std::vector<Tensor> folded = ops::inference::fold_before(
      map, conv->weight, optional(conv->bias), conv->options.groups(), pads_zeros<D>(*conv));
  if (folded.empty()) return false;
  next = conv_like<D>(*conv, folded[0], folded[1]);
  return true;
}

bool fold_into_linear(torch::nn::AnyModule& next, const Map& map) {
  const auto linear = as<torch::nn::LinearImpl>(next);
  const Tensor by_place = linear->weight.view({linear->weight.size(0), map[0].size(0), -1});
  const std::vector<Tensor> folded =
      ops::inference::fold_before(map, by_place, optional(linear->bias), 1, false);
  if (folded.empty()) return false;
  next = linear_like(*linear, folded[0], folded[1]);
  return true;
}

/// A map that no neighbour takes, as one or two 1×1 convolutions.
template <size_t D>
std::vector<torch::nn::AnyModule> stand_alone(const Map& map, const Tensor& like) {
  const std::vector<Tensor> parts = ops::inference::fold_alone(map);
  std::vector<torch::nn::AnyModule> out;
  for (size_t k = 0; k < parts.size(); k += 2) {
    const int64_t n = parts[k].size(0), groups = n / parts[k].size(1);
    if constexpr (D == 1) {
      Tensor dense = torch::zeros({n, n}, torch::kDouble);
      for (int64_t g = 0, width = n / groups; g < groups; ++g)
        dense.narrow(0, g * width, width)
            .narrow(1, g * width, width)
            .copy_(parts[k].narrow(0, g * width, width));
      out.push_back(with_weights(PointwiseAffine(n), dense, parts[k + 1], like));
    } else {
      typename nn::Modules<D>::Conv conv(torch::nn::ConvOptions<D>(n, n, 1).groups(groups));
      out.push_back(with_weights(conv, parts[k], parts[k + 1], like));
    }
  }
  return out;
}

/// Where the layer at `at` is one of D directions, puts it into a neighbour or a convolution of its
/// own stands in its place.
template <size_t D>
bool replace_layer(std::vector<Element>& all, size_t at) {
  const auto norm = as<typename nn::Modules<D>::Norm::ContainedType>(all[at].module);
  if (!norm) return false;
  const Map map = nn::Access::average_map(*norm);
  const auto remove = [&] { all.erase(all.begin() + static_cast<int64_t>(at)); };
  if (at > 0 && fold_into_former(all[at - 1].module, map, D)) return remove(), true;
  if (at + 1 < all.size() && fold_into_conv<D>(all[at + 1].module, map)) return remove(), true;
  const nn::LinearBehind behind = nn::linear_behind(all, at, *norm);
  if (behind.linear && fold_into_linear(all[at + behind.distance].module, map))
    return remove(), true;
  std::vector<torch::nn::AnyModule> own = stand_alone<D>(map, norm->running_mean);
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
  if (pair->scale == 1) {
    out.push_back({element.name, torch::nn::AnyModule(pair->linear)});
  } else {
    const auto& linear = *pair->linear;
    const Tensor none = torch::zeros({linear.weight.size(0)}, linear.weight.options());
    out.push_back({element.name, linear_like(linear, linear.weight * pair->scale,
                                             linear.bias.defined() ? linear.bias : none)});
  }
  return true;
}

/// With pairs as the modules they were made of.
std::vector<Element> taken_apart(const torch::nn::Sequential& net) {
  std::vector<Element> out;
  for (const Element& element : nn::elements_of(net))
    if (!take_apart_conv<1>(element, out) && !take_apart_conv<2>(element, out) &&
        !take_apart_conv<3>(element, out) && !take_apart_linear<1>(element, out) &&
        !take_apart_linear<2>(element, out) && !take_apart_linear<3>(element, out))
      out.push_back(element);
  return out;
}

torch::nn::Sequential sequential_of(std::vector<Element> all) {
  torch::nn::Sequential out;
  for (Element& element : all) out->push_back(element.name, std::move(element.module));
  return out;
}

}  // namespace

torch::nn::Sequential fold(const torch::nn::Sequential& net) {
  TORCH_CHECK(!net.is_empty(), "fold: expected a Sequential, got none");
  const torch::NoGradGuard no_grad;
  std::vector<Element> all = taken_apart(net);
  for (Element& element : all) {
    if (std::dynamic_pointer_cast<BatchOrthoLayer>(element.module.ptr())) continue;
    const auto inside = layers_of(*element.module.ptr());
    TORCH_CHECK(inside.empty(), "fold: expected layers that are elements of the Sequential, got ",
                inside.front().second->description(), " inside element '", element.name,
                "', whose way through it cannot be seen");
    element.module = element.module.clone();
  }
  for (size_t at = 0; at < all.size();) {
    const size_t before = all.size();
    const bool ours =
        replace_layer<1>(all, at) || replace_layer<2>(all, at) || replace_layer<3>(all, at);
    if (!ours || all.size() >= before) at += 1 + all.size() - before;
  }
  torch::nn::Sequential out = sequential_of(std::move(all));
  out->eval();
  return out;
}

torch::nn::Sequential unfold_training(const torch::nn::Sequential& net) {
  TORCH_CHECK(!net.is_empty(), "unfold_training: expected a Sequential, got none");
  torch::nn::Sequential out = sequential_of(taken_apart(net));
  out->train(net->is_training());
  return out;
}

}  // namespace orthobatch
