// Which modules of a Sequential are a layer and what reads it.

#include <torch/torch.h>

#include <algorithm>

#include "orthobatch/folded.h"

namespace orthobatch {
namespace {

template <typename Module>
std::shared_ptr<Module> as(const torch::nn::AnyModule& module) {
  return std::dynamic_pointer_cast<Module>(module.ptr());
}

/// A part of a Sequential.
struct Element {
  std::string name;
  torch::nn::AnyModule module;
};

bool flattens_all(const torch::nn::AnyModule& module) {
  const auto flatten = as<torch::nn::FlattenImpl>(module);
  return flatten && flatten->options.start_dim() == 1 && flatten->options.end_dim() == -1;
}

bool averages_all(const torch::nn::AnyModule& module) {
  const auto is_one = [](const auto& sizes) {
    return std::all_of(sizes->begin(), sizes->end(), [](const auto& s) { return s == 1; });
  };
  if (const auto pool = as<torch::nn::AdaptiveAvgPool1dImpl>(module))
    return is_one(pool->options.output_size());
  if (const auto pool = as<torch::nn::AdaptiveAvgPool2dImpl>(module))
    return is_one(pool->options.output_size());
  const auto pool = as<torch::nn::AdaptiveAvgPool3dImpl>(module);
  return pool && is_one(pool->options.output_size());
}

struct Joined {
  torch::nn::AnyModule module;
  size_t count = 0;  // elements it stands for; 0: none
};

template <typename Norm, typename NormImpl, typename Conv, typename ConvImpl, typename Folded>
Joined join(const std::vector<Element>& all, size_t at) {
  const auto norm = as<NormImpl>(all[at].module);
  if (!norm) return {};
  const auto next = [&](size_t k) -> const torch::nn::AnyModule* {
    return at + k < all.size() ? &all[at + k].module : nullptr;
  };
  if (!next(1)) return {};
  if (const auto conv = as<ConvImpl>(*next(1)))
    return {torch::nn::AnyModule(Folded(Norm(norm), Conv(conv))), 2};
  size_t k = 1;
  const bool averages = averages_all(*next(1));
  if (averages) ++k;
  const bool flattens = next(k) && flattens_all(*next(k));
  if (flattens) ++k;
  const auto linear = next(k) ? as<torch::nn::LinearImpl>(*next(k)) : nullptr;
  if (!linear) return {};
  const int64_t channels = norm->options.channels(), inputs = linear->options.in_features();
  // Linear reads the last direction, which is the channels' only in (N, C).
  const bool of_channels = std::is_same_v<Norm, BatchOrtho1d> && !averages && inputs == channels;
  if (!flattens && !of_channels) return {};
  if (inputs % channels != 0 || (averages && inputs != channels)) return {};
  return {torch::nn::AnyModule(FoldedLinear(Norm(norm), torch::nn::Linear(linear),
                                            averages ? Pooling::average : Pooling::none)),
          k + 1};
}

Joined join(const std::vector<Element>& all, size_t at) {
  using namespace torch::nn;
  for (const Joined& joined :
       {join<BatchOrtho1d, BatchOrtho1dImpl, Conv1d, Conv1dImpl, FoldedConv1d>(all, at),
        join<BatchOrtho2d, BatchOrtho2dImpl, Conv2d, Conv2dImpl, FoldedConv2d>(all, at),
        join<BatchOrtho3d, BatchOrtho3dImpl, Conv3d, Conv3dImpl, FoldedConv3d>(all, at)})
    if (joined.count > 0) return joined;
  return {};
}

}  // namespace

torch::nn::Sequential fold_training(torch::nn::Sequential net) {
  TORCH_CHECK(!net.is_empty(), "fold_training: expected a Sequential, got none");
  std::vector<Element> all;
  const auto names = net->named_children().keys();
  for (const torch::nn::AnyModule& module : *net) all.push_back({names[all.size()], module});
  torch::nn::Sequential out;
  for (size_t at = 0; at < all.size();) {
    if (Joined joined = join(all, at); joined.count > 0) {
      out->push_back(all[at].name, std::move(joined.module));
      at += joined.count;
      continue;
    }
    out->push_back(all[at].name, all[at].module);
    ++at;
  }
  out->train(net->is_training());
  return out;
}

}  // namespace orthobatch
