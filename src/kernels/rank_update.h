#pragma once

#include <cstdint>

namespace orthobatch::kernels {

/// C += AᵀA, lower triangle alone: A is samples × width, row-major with the given stride, C is
/// width × width. Own code because BLAS offers no thread-safe small dsyrk that stays on its core.
void rank_update(const double* a, int64_t samples, int64_t width, int64_t stride, double* c);

}  // namespace orthobatch::kernels
