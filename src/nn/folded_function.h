#pragma once
// A layer folded into what reads its output, in training: y = reader(P X + q) as
// reader(X) with the weights w P and a bias that has the shares of q; Z itself is never made.
//
//   w̃    = w P
//   ∇w_t = ∇w̃_t Pᵀ + s_t qᵀ       s_t: the sum of h over samples and the places where tap t is inside
//   ∇q   = Σ_t w_tᵀ s_t
//   G Xᵀ = Σ_t w_tᵀ ∇w̃_t
//   ∇X   = (what the reader gives for w̃) + Q X + r
//
// with G Xᵀ and ∇q the sums that the layer's pullback takes.

#include <torch/types.h>

#include <memory>

#include "nn/function.h"
#include "nn/reader.h"

namespace orthobatch::nn {

struct FoldedCall {
  LayerCall layer;
  core::AffineMap map;  // the layer's, without a center
  std::shared_ptr<const Reader> reader;
};

/// Whether P goes into the reader's weights: exact enough as P X + q, and nothing between groups of
/// channels that are read apart.
bool folds(const LayerCall& layer, const Reader& reader);

/// For a layer that `folds`.
FoldedCall fold_call(LayerCall layer, std::shared_ptr<const Reader> reader);

/// Weights that read X in place of Z, and what is then added.
struct FoldedWeights {
  torch::Tensor weight, bias;  // in the weight's type
  torch::Tensor shares;        // of q, by tap: (C_out, taps…), double
};
FoldedWeights folded_weights(const FoldedCall& call, const torch::Tensor& weight,
                             const torch::Tensor& bias);

/// The tensors that y depends on, or the gradients to them; undefined where absent.
struct FoldedTensors {
  torch::Tensor x, read, gamma, b, skew, weight, bias;
};

/// The reader's output.
torch::Tensor folded_output(const torch::Tensor& read, const FoldedWeights& weights,
                            const Reader& reader);

/// The gradients that are wanted (in the order of FoldedTensors) from that of y. `folded_weight` is
/// that of folded_weights.
FoldedTensors folded_gradients(const torch::Tensor& dy, const FoldedTensors& at,
                               const torch::Tensor& folded_weight, const FoldedCall& call,
                               std::array<bool, 7> wanted);

/// y with gradients to all that is named. The statistics are those of x (dense); `read`, where
/// defined, is what the reader gets in its place: an affine image of x that commutes with the
/// layer, as its average over places.
torch::Tensor apply_folded(const torch::Tensor& x, const torch::Tensor& read,
                           const torch::Tensor& gamma, const torch::Tensor& b,
                           const torch::Tensor& skew, const torch::Tensor& weight,
                           const torch::Tensor& bias, FoldedCall call);

}  // namespace orthobatch::nn
