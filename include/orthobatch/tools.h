#pragma once
// What is done to the layers of a net.

#include <torch/nn/modules/container/sequential.h>

#include <deque>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "orthobatch/modules.h"

namespace orthobatch {

/// The BatchOrtho layers inside a net with their paths ("block2.norm"), in the order of the net.
ORTHOBATCH_API std::vector<std::pair<std::string, BatchOrthoLayer*>> layers_of(
    torch::nn::Module& net);
ORTHOBATCH_API std::vector<std::pair<std::string, const BatchOrthoLayer*>> layers_of(
    const torch::nn::Module& net);

/// Gives every BatchOrtho layer of a net its path in the net ("block2.norm") as its name, so that
/// messages say which layer they mean.
ORTHOBATCH_API void name_layers(torch::nn::Module& net);

/// The net with every BatchNorm1d/2d/3d among its elements replaced by a layer of the spec with the
/// same scale, bias, momentum and ε, the mean and variances it knows, and no correlations. The other
/// modules, and the parameters, are the net's own: an optimizer goes on. A BatchNorm that is a member
/// of another module cannot be replaced from outside in C++: that module calls its own holder.
ORTHOBATCH_API torch::nn::Sequential convert(const torch::nn::Sequential& net,
                                             const LayerSpec& spec);

/// The layers evaluate with their running statistics from now on, whatever train() says; with
/// `parameters` their scale, bias and rotation stop learning too. And back.
ORTHOBATCH_API void freeze(torch::nn::Module& net, bool parameters = false);
ORTHOBATCH_API void unfreeze(torch::nn::Module& net);

/// Running statistics anew with the weights of the moment, all batches counting the same: `forward`
/// runs the net on each. Everything but our layers is in evaluation meanwhile, so dropout is off. Where
/// it throws, the statistics are as before.
ORTHOBATCH_API void update_statistics(torch::nn::Module& net, const std::function<void()>& forward);

/// What a net was called with last in training, for `auto_update_statistics`.
class ORTHOBATCH_API RecentCalls {
 public:
  explicit RecentCalls(size_t batches) : batches_(batches) {}

  /// A call in training, to be run again.
  void remember(std::function<void()> call);
  /// update_statistics with those calls, where there were any since the last time; random generators
  /// stay as they are.
  void update(torch::nn::Module& net);

 private:
  size_t batches_;
  std::deque<std::function<void()>> calls_;
  bool changed_ = false;
};

/// A net that is called through this object; see `auto_update_statistics`.
template <typename Net>
class AutoUpdateStatistics {
 public:
  AutoUpdateStatistics(Net net, size_t batches) : net_(std::move(net)), recent_(batches) {}

  template <typename... Inputs>
  auto operator()(const Inputs&... inputs) {
    if (!net_->is_training())
      recent_.update(*net_);
    else if (torch::GradMode::is_enabled())
      recent_.remember([net = net_, copies = std::make_tuple(copy(inputs)...)]() mutable {
        std::apply([&](const auto&... of) { net->forward(of...); }, copies);
      });
    return net_->forward(inputs...);
  }

 private:
  template <typename T>
  static T copy(const T& input) {
    if constexpr (std::is_same_v<T, torch::Tensor>)
      return input.defined() ? input.detach().clone() : input;
    else
      return input;
  }

  Net net_;
  RecentCalls recent_;
};

/// Running statistics of the present weights, by themselves: call the net through what this returns. It
/// remembers the last inputs of training, and before the first evaluation after them runs
/// update_statistics with them (so many forward passes, copies of so many inputs).
///   auto run = auto_update_statistics(net);  run(x) in training and in evaluation
template <typename Net>
AutoUpdateStatistics<Net> auto_update_statistics(Net net, size_t batches = 4) {
  return {std::move(net), batches};
}

/// Gives every BatchOrtho layer of a net the group. All processes call it with the same net: they
/// compare what layers they have, and each throws where one has others.
ORTHOBATCH_API void convert_sync(torch::nn::Module& net, const ProcessGroup& group);

}  // namespace orthobatch
