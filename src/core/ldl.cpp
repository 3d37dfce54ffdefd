#include "core/ldl.h"

#include <algorithm>
#include <numeric>

#include "core/linalg.h"
#include "core/spectrum.h"

namespace orthobatch {
namespace {

int64_t largest_diagonal(const Matrix& a, int64_t from) {
  int64_t best = from;
  for (int64_t i = from + 1; i < a.rows(); ++i)
    if (a(i, i) > a(best, best)) best = i;
  return best;
}

bool has_rival(const Matrix& a, int64_t from, int64_t best) {
  for (int64_t i = from; i < a.rows(); ++i)
    if (i != best && a(best, best) - a(i, i) <= kink_tolerance * a(best, best)) return true;
  return false;
}

void swap_symmetric(Matrix& a, int64_t i, int64_t j) {
  for (int64_t k = 0; k < a.rows(); ++k) std::swap(a(i, k), a(j, k));
  for (int64_t k = 0; k < a.rows(); ++k) std::swap(a(k, i), a(k, j));
}

}  // namespace

LdlDecomposition ldl(Matrix a, Pivoting pivoting, double minimum) {
  const int64_t n = a.rows();
  LdlDecomposition f;
  f.L = Matrix::identity(n);
  f.d.resize(n);
  f.null.resize(n);
  f.order.resize(n);
  std::iota(f.order.begin(), f.order.end(), 0);
  f.L_inverse = Matrix::identity(n);
  Vector variance = diag(a);  // A_jj, in the order of the pivots
  const double tolerance = linalg::null_tolerance(n);

  Vector column(n);
  for (int64_t k = 0; k < n; ++k) {
    if (pivoting == Pivoting::largest_diagonal) {
      const int64_t best = largest_diagonal(a, k);
      f.tied = f.tied || (a(best, best) > tolerance * variance[0] && has_rival(a, k, best));
      if (best != k) {
        swap_symmetric(a, k, best);
        std::swap(f.order[k], f.order[best]);
        std::swap(variance[k], variance[best]);
        for (int64_t j = 0; j < k; ++j) std::swap(f.L(k, j), f.L(best, j));
      }
    }
    // Row k of L^(−1) = e_k − Σ_{j<k} L_kj · row j
    double noise = tolerance * variance[k];
    for (int64_t j = 0; j < k; ++j)
      for (int64_t i = 0; i <= j; ++i) f.L_inverse(k, i) -= f.L(k, j) * f.L_inverse(j, i);
    for (int64_t i = 0; i < k; ++i)
      noise += tolerance * f.L_inverse(k, i) * f.L_inverse(k, i) * variance[i];

    f.null[k] = minimum <= 0 && a(k, k) <= noise;
    if (f.null[k]) continue;
    f.d[k] = std::max(a(k, k), minimum);
    for (int64_t i = k + 1; i < n; ++i) column[i] = a(i, k);
    for (int64_t i = k + 1; i < n; ++i) {
      const double l = column[i] / f.d[k];
      f.L(i, k) = l;
      for (int64_t j = k + 1; j < n; ++j) a(i, j) -= l * column[j];
    }
  }
  return f;
}

Matrix pullback_ldl(const LdlDecomposition& f, const Matrix& W, const Matrix& dW,
                    const Vector& d_floored, const std::vector<bool>& has_gradient,
                    Gradient gradient) {
  const size_t n = f.d.size();
  const auto inverse = [](double x) { return x > 0 ? 1.0 / x : 0.0; };

  Vector dd = rowwise_dot(W, dW);  // ∇d = −½ d̃^(−1) ∘ rowsum(W ∘ ∇W)
  Vector d_inverse(n);             // D^(−1): of the unfloored pivots, in the paper of the floored
  for (size_t k = 0; k < n; ++k) {
    dd[k] = has_gradient[k] ? -0.5 * inverse(d_floored[k]) * dd[k] : 0.0;
    d_inverse[k] = inverse(gradient == Gradient::exact ? f.d[k] : d_floored[k]);
  }
  // ∇L = −strictly-lower(Wᵀ ∇W L^(−T))
  Matrix dL = strictly_lower(linalg::matmul_nt(linalg::matmul_tn(W, dW), f.L_inverse));
  dL *= -1.0;

  Matrix inner = gradient == Gradient::exact
                     ? scale_cols(linalg::matmul_tn(f.L, dL), d_inverse)   // Lᵀ ∇L D^(−1)
                     : scale_rows(d_inverse, linalg::matmul_nt(dL, f.L));  // D^(−1) ∇L Lᵀ
  inner = strictly_lower(std::move(inner));
  for (size_t k = 0; k < n; ++k) inner(k, k) = dd[k];
  // ∇A = sym(L^(−T) (diag ∇d + …) L^(−1))
  return sym(linalg::matmul(linalg::matmul_tn(f.L_inverse, inner), f.L_inverse));
}

}  // namespace orthobatch
