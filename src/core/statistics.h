#pragma once

#include <vector>

#include "core/affine.h"
#include "core/block_matrix.h"

namespace orthobatch::core {

/// What a layer needs to know of some samples.
struct Statistics {
  double samples = 0;
  Vector mean;             // μ, N
  BlockMatrix covariance;  // Σ = Xc Xcᵀ / samples
};

/// Of all the samples together, from those of its parts, in their order: the same parts give the
/// same bits wherever they are merged. Parts without samples count for nothing; not all may be
/// empty.
Statistics merge(const std::vector<Statistics>& parts);

/// Channels whose deviation is noise in the type of the data have none: zeros in Σ.
void drop_unresolved(BlockMatrix& covariance, Real real);

}  // namespace orthobatch::core
