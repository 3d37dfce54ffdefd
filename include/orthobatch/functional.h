#pragma once
// Whitening without state: no module, no learned parameters, no running averages. Specs as for layers,
// without ->W.

#include <torch/types.h>

#include "orthobatch/export.h"
#include "orthobatch/spec.h"

namespace orthobatch {

/// (N, C, …) whitened with its own statistics over all but the second dimension: T (x − μ). The
/// gradient includes that of T and μ. Equivalent to BatchOrtho1d/2d/3d in training without affine.
ORTHOBATCH_API torch::Tensor whiten(const torch::Tensor& x, const LayerSpec& spec = "ZCA(1e-5)");

/// The same with its map, to whiten other data: x − mean by rows, times matrixᵀ.
struct Whitened {
  torch::Tensor output, matrix, mean;  // like x, C×C, (C)
};
ORTHOBATCH_API Whitened whiten_with_map(const torch::Tensor& x,
                                        const LayerSpec& spec = "ZCA(1e-5)");

/// T of each covariance of (…, C, C), with T Σ Tᵀ = I where Σ is regular. The gradient is exact and
/// finite at equal eigenvalues and singular matrices.
ORTHOBATCH_API torch::Tensor whitening_matrix(const torch::Tensor& covariance,
                                              const LayerSpec& spec = "ZCA(1e-5)");

}  // namespace orthobatch
