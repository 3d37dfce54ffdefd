#pragma once
// The one doorway to LAPACK, BLAS and oneDNN. Every status is checked here: a factorization that
// fails throws FactorizationError and the caller's state is untouched.

#include <string>

#include "core/matrix.h"
#include "orthobatch/errors.h"

namespace orthobatch::core::linalg {

enum class Op { none, transpose };

/// C ← alpha · op(A) op(B) + beta · C, all row-major; op(A) is m×k, op(B) is k×n.
/// float runs on oneDNN where the build has it, double on BLAS.
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc);

/// The library of the float products, with its version: "oneDNN 2.6.3", "OpenBLAS 0.3.21".
std::string products_library();

Matrix matmul(const Matrix& a, const Matrix& b);     // A B
Matrix matmul_tn(const Matrix& a, const Matrix& b);  // Aᵀ B
Matrix matmul_nt(const Matrix& a, const Matrix& b);  // A Bᵀ

// The same where the product is known to be symmetric: from N = 129 on about half of it is
// computed.
Matrix symmetric_matmul(const Matrix& a, const Matrix& b);     // A B
Matrix symmetric_matmul_tn(const Matrix& a, const Matrix& b);  // Aᵀ B
Matrix symmetric_matmul_nt(const Matrix& a, const Matrix& b);  // A Bᵀ

/// A = U diag(lambda) Uᵀ with lambda descending and the eigenvectors in the columns of U.
struct SymmetricEigen {
  Vector lambda;
  Matrix U;
};
SymmetricEigen eigh(const Matrix& a);

/// X with A X = B.
Matrix solve(const Matrix& a, const Matrix& b);

/// Relative size under which an eigenvalue or pivot of an n×n covariance is rounding noise.
double null_tolerance(int64_t n);

}  // namespace orthobatch::core::linalg
