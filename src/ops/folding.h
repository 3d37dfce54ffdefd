#pragma once
// A layer folded into what consumes its output, in training too: y = consumer(P X + q) as consumer(X)
// with the weights w P and a bias that has the shares of q; Z itself is never made.
//
//   w̃    = w P
//   ∇w_t = ∇w̃_t Pᵀ + s_t qᵀ       s_t: the sum of h over samples and the places where tap t is inside
//   ∇q   = Σ_t w_tᵀ s_t
//   G Xᵀ = Σ_t w_tᵀ ∇w̃_t
//   ∇X   = (what the consumer gives for w̃) + Q X + r
//
// with G Xᵀ and ∇q the sums that the layer's pullback takes.

#include "ops/call.h"

namespace orthobatch::ops {

/// Weights that read X in place of Z, and what is then added.
struct FoldedWeights {
  Tensor weight, bias;  // in the weight's type
  Tensor shares;        // of q, by tap: (C_out, taps…), in the exact type
};
FoldedWeights folded_weights(const Call& call, const Made& made);
/// The same for a map of averages, made once while it and the weights stay as they are.
std::shared_ptr<const FoldedWeights> kept_weights(const Call& call,
                                                  const std::shared_ptr<const Made>& made);

/// The consumer's output.
Tensor folded_output(const Call& call, const FoldedWeights& weights);

/// Z as the consumer reads it, where it is not folded.
Tensor unfolded_input(const Call& call, const Made& made);
Tensor unfolded_output(const Call& call, const Made& made);

/// Values by output channel and tap, (C_out, taps…), as the passes take them: by sample, which is an
/// output channel of a group and a tap, and group.
Tensor to_samples(const Tensor& by_tap, int64_t groups);

/// ∇w = ∇w̃ Pᵀ + s qᵀ, in the layout of the weight; `folded` is ∇w̃ as samples. `affine` is the map
/// without a center.
Tensor weight_gradient(const Tensor& folded, const Tensor& by_tap, const core::AffineMap& affine,
                       const kernels::Placed& placed, int64_t groups);

/// s: the sum of h over samples and the places where each tap is inside, (C_out, taps…).
Tensor sums_by_tap(const Consumer& consumer, const Tensor& h, const Tensor& sum,
                   const Tensor& weight);

}  // namespace orthobatch::ops
