#pragma once
// Statistics of every s-th place in each direction.

#include <torch/types.h>

#include "kernels/passes.h"

namespace orthobatch::nn {

/// Every `stride`-th place of an (N, C, …) tensor in each direction, as a view; all of an (N, C)
/// one.
inline torch::Tensor sampled(torch::Tensor x, int64_t stride) {
  for (int64_t d = 2; stride > 1 && d < x.dim(); ++d) x = x.slice(d, 0, x.size(d), stride);
  return x;
}

/// What the statistics add to ∇X, at the places they were taken from. dx has the layout of x.
inline void add_statistics_gradient(torch::Tensor& dx, const torch::Tensor& x,
                                    const core::GradientMap& map, int64_t stride) {
  const kernels::Passes& passes = kernels::passes_for(x);
  if (stride == 1) return passes.add_statistics_gradient(dx, x, map);
  const torch::Tensor seen = kernels::dense_layout(sampled(x, stride));
  torch::Tensor part = torch::zeros_like(seen);
  passes.add_statistics_gradient(part, seen, map);
  sampled(dx, stride).add_(part);
}

}  // namespace orthobatch::nn
