#include "core/cayley.h"

#include "core/linalg.h"

namespace orthobatch::core {
namespace {

Matrix skew_matrix(const Vector& skew, int64_t n) {
  Matrix S(n);
  size_t k = 0;
  for (int64_t i = 1; i < n; ++i)
    for (int64_t j = 0; j < i; ++j, ++k) {
      S(i, j) = skew[k];
      S(j, i) = -skew[k];
    }
  return S;
}

}  // namespace

int64_t skew_size(int64_t n) { return n * (n - 1) / 2; }

Matrix cayley(const Vector& skew, int64_t n) {
  const Matrix S = skew_matrix(skew, n), I = Matrix::identity(n);
  // (I+S) and (I−S)^(−1) commute: solve on the left. I−S is never singular, S having no real
  // eigenvalue but 0.
  return linalg::solve(I - S, I + S);
}

Vector pullback_cayley(const Vector& skew, const Matrix& W, const Matrix& dW, Gradient gradient) {
  const int64_t n = W.rows();
  const Matrix I = Matrix::identity(n), I_plus_W = I + W;
  Matrix left;
  if (gradient == Gradient::exact) {
    left = linalg::matmul_tn(I_plus_W, dW);  // (I + Wᵀ) ∇W
  } else {
    // Printed: ∇W first made tangent, (∇W − W ∇Wᵀ W)/2, then I + Wᵀ∇W.
    const Matrix tangent = 0.5 * (dW - linalg::matmul(linalg::matmul_nt(W, dW), W));
    left = I + linalg::matmul_tn(W, tangent);
  }
  // ∇S = left (I+S)^(−1), and W = 2(I−S)^(−1) − I gives (I+S)^(−1) = (I+Wᵀ)/2 without a solve.
  const Matrix dS = 0.5 * linalg::matmul_nt(left, I_plus_W);
  Vector out(skew.size());
  size_t k = 0;
  for (int64_t i = 1; i < n; ++i)  // entry s sits at (i,j) and, negated, at (j,i)
    for (int64_t j = 0; j < i; ++j, ++k) out[k] = dS(i, j) - dS(j, i);
  return out;
}

}  // namespace orthobatch::core
