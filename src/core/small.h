#pragma once
// Eigenvalues and products of small matrices, where a call of LAPACK or BLAS costs more than its
// work. Compiled once for each generation of vector units, as the loops of the passes are.

#include <cstdint>

namespace orthobatch::core {

/// The largest N that these take.
constexpr int64_t most_small = 32;

struct Small {
  /// A = U diag(lambda) Uᵀ, row-major n×n, lambda descending, eigenvectors in the columns of U.
  /// False where it does not converge, which finite matrices do.
  bool (*eigh)(int64_t n, const double* a, double* lambda, double* U);
  /// C = A B, m×k times k×n, C row-major. A(i, j) is a[i·a_row + j·a_col], B alike.
  void (*multiply)(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_col,
                   const double* b, int64_t b_row, int64_t b_col, double* c);
};

/// The set for this processor.
const Small& small();

}  // namespace orthobatch::core
