// Which modules of a Sequential are a layer and what consumes its output.

#include <torch/torch.h>

#include "nn/sequential.h"

namespace orthobatch {
namespace {

using nn::as;
using nn::Element;

struct Joined {
  torch::nn::AnyModule module;
  size_t count = 0;  // elements it stands for; 0: none
};

template <size_t D>
Joined join(const std::vector<Element>& all, size_t at) {
  using Norm = typename nn::Modules<D>::Norm;
  using Conv = typename nn::Modules<D>::Conv;
  const auto norm = as<typename Norm::ContainedType>(all[at].module);
  if (!norm || at + 1 == all.size()) return {};
  if (const auto conv = as<typename Conv::ContainedType>(all[at + 1].module))
    return {torch::nn::AnyModule(typename nn::Modules<D>::Folded(Norm(norm), Conv(conv))), 2};
  const nn::LinearBehind behind = nn::linear_behind(all, at, *norm);
  if (!behind.linear) return {};
  return {torch::nn::AnyModule(FoldedLinear(Norm(norm), torch::nn::Linear(behind.linear),
                                            behind.averages ? Pooling::average : Pooling::none)),
          behind.distance + 1};
}

Joined join(const std::vector<Element>& all, size_t at) {
  for (const Joined& joined : {join<1>(all, at), join<2>(all, at), join<3>(all, at)})
    if (joined.count > 0) return joined;
  return {};
}

}  // namespace

torch::nn::Sequential fold_training(torch::nn::Sequential net) {
  TORCH_CHECK(!net.is_empty(), "fold_training: expected a Sequential, got none");
  const std::vector<Element> all = nn::elements_of(net);
  torch::nn::Sequential out;
  for (size_t at = 0; at < all.size();) {
    if (Joined joined = join(all, at); joined.count > 0) {
      at += joined.count;
      out->push_back(all[at - 1].name, std::move(joined.module));
      continue;
    }
    out->push_back(all[at].name, all[at].module);
    ++at;
  }
  out->train(net->is_training());
  return out;
}

}  // namespace orthobatch
