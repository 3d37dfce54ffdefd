#pragma once
// What is done to the layers of a net.

#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <string>
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

/// Gives every BatchOrtho layer of a net the group. All processes call it with the same net: they
/// compare what layers they have, and each throws where one has others.
ORTHOBATCH_API void convert_sync(torch::nn::Module& net, const ProcessGroup& group);

}  // namespace orthobatch
