#pragma once

#include <torch/types.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "core/layer.h"
#include "kernels/passes.h"
#include "orthobatch/process_group.h"

namespace orthobatch::nn {

/// Everything one call of a layer fixes before the data are transformed.
struct LayerCall {
  std::shared_ptr<const core::LayerAlgebra> algebra;
  std::shared_ptr<const core::Fold> fold;
  core::LayerParameters parameters;
  std::string description;
  int64_t sample_stride = 1;  // of the places that the statistics were taken from
  ProcessGroup group = {};  // whose statistics they are; of this process alone where there is none
};

/// Whether a backward pass sums over the ranks of the call's group.
bool sums_over_ranks(const LayerCall& call, core::LayerAlgebra::Wanted wanted);
/// The layer's part of a backward pass, from the sums over this process's samples: the gradients of
/// the parameters are of these, that of the input of those of all processes, which are on their way
/// until what this returns is called. `map` is the form of the fold's through which the data were
/// seen; it and `call` must outlive it.
std::function<core::LayerGradients()> begin_pull_back(const LayerCall& call,
                                                      const core::AffineMap& map,
                                                      core::GradientSums sums,
                                                      core::LayerAlgebra::Wanted wanted);

/// The tensors that Z = P (X − μ) + b depends on, or the gradients to them; undefined where absent.
struct LayerTensors {
  torch::Tensor x, weight, bias, skew;
};

/// What the pullback needs of this process's samples. x is dense.
core::GradientSums layer_sums(const torch::Tensor& dz, const torch::Tensor& x,
                              const LayerCall& call);

/// The gradients that are wanted (in the order of LayerTensors) from that of Z. x is dense; `own`,
/// where given, are its sums.
LayerTensors layer_gradients(const torch::Tensor& dz, const LayerTensors& at, const LayerCall& call,
                             std::array<bool, 4> wanted, const core::GradientSums* own = nullptr);

/// Z = P (X − μ) + b with gradients to x, weight, bias and skew (undefined where absent). x is
/// dense (kernels::dense_layout).
torch::Tensor apply_layer(const torch::Tensor& x, const torch::Tensor& weight,
                          const torch::Tensor& bias, const torch::Tensor& skew, LayerCall call);

}  // namespace orthobatch::nn
