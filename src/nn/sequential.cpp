#include "nn/sequential.h"

#include <torch/torch.h>

#include <algorithm>

namespace orthobatch::nn {

std::vector<Element> elements_of(const torch::nn::Sequential& net) {
  std::vector<Element> out;
  const auto names = net->named_children().keys();
  for (const torch::nn::AnyModule& module : *net) out.push_back({names[out.size()], module});
  return out;
}

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

LinearBehind linear_behind(const std::vector<Element>& all, size_t at,
                           const BatchOrthoLayer& norm) {
  const auto next = [&](size_t k) -> const torch::nn::AnyModule* {
    return at + k < all.size() ? &all[at + k].module : nullptr;
  };
  size_t k = 1;
  const bool averages = next(k) && averages_all(*next(k));
  if (averages) ++k;
  const bool flattens = next(k) && flattens_all(*next(k));
  if (flattens) ++k;
  const auto linear = next(k) ? as<torch::nn::LinearImpl>(*next(k)) : nullptr;
  if (!linear) return {};
  const int64_t channels = norm.options.num_features(), inputs = linear->options.in_features();
  const bool of_channels =
      dynamic_cast<const BatchOrtho1dImpl*>(&norm) && !averages && inputs == channels;
  if (!flattens && !of_channels) return {};
  if (inputs % channels != 0 || (averages && inputs != channels)) return {};
  return {linear, k, averages};
}

}  // namespace orthobatch::nn
