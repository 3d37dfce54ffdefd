#include "core/ldl.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/linalg.h"
#include "core/spectrum.h"

namespace orthobatch::core {
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

/// The row that is to be the pivot of step k, and whether another one was as good.
struct Choice {
  int64_t row;
  bool tied;
};

/// Bunch and Kaufman's rule: with l = max_{i>k} |a_ik|, at row r, and s the largest |a_jr| off the
/// diagonal of column r, j ≥ k, row k stays if a_kk ≥ α l or a_kk s ≥ α l²; else r takes its place.
Choice bunch_kaufman(const Matrix& a, int64_t k) {
  static const double alpha = (1 + std::sqrt(17.0)) / 8;
  const int64_t n = a.rows();
  int64_t r = k;
  double l = 0, s = 0;
  for (int64_t i = k + 1; i < n; ++i)
    if (std::abs(a(i, k)) > l) {
      l = std::abs(a(i, k));
      r = i;
    }
  if (l == 0) return {k, false};
  for (int64_t j = k; j < n; ++j)
    if (j != r) s = std::max(s, std::abs(a(j, r)));
  // How far the pivot is above the threshold, as a share of it; s ≥ l, so the second rule decides.
  const double margin = a(k, k) * s / (alpha * l * l) - 1;
  bool tied = std::abs(margin) <= kink_tolerance;
  if (margin >= 0) return {k, tied};
  for (int64_t i = k + 1; i < n; ++i)
    tied = tied || (i != r && l - std::abs(a(i, k)) <= kink_tolerance * l);
  return {r, tied};
}

Choice choose_pivot(const Matrix& a, int64_t k, Pivoting pivoting) {
  if (pivoting == Pivoting::none) return {k, false};
  if (pivoting == Pivoting::bunch_kaufman) return bunch_kaufman(a, k);
  const int64_t best = largest_diagonal(a, k);
  return {best, has_rival(a, k, best)};
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

  // Row k of L^(−1) = e_k − Σ_{j<k} L_kj · row j; returns the rounding of A carried through it.
  const auto regress = [&](int64_t k) {
    for (int64_t i = 0; i < k; ++i) f.L_inverse(k, i) = 0;
    for (int64_t j = 0; j < k; ++j)
      for (int64_t i = 0; i <= j; ++i) f.L_inverse(k, i) -= f.L(k, j) * f.L_inverse(j, i);
    double noise = tolerance * variance[k];
    for (int64_t i = 0; i < k; ++i)
      noise += tolerance * f.L_inverse(k, i) * f.L_inverse(k, i) * variance[i];
    return noise;
  };

  Vector column(n);
  for (int64_t k = 0; k < n; ++k) {
    // A null row has nothing but rounding to be compared with: it stays where rows can.
    const bool stays = pivoting == Pivoting::bunch_kaufman && a(k, k) <= regress(k);
    const auto [best, tied] = stays ? Choice{k, false} : choose_pivot(a, k, pivoting);
    f.tied = f.tied || (tied && a(best, best) > tolerance * variance[0]);
    if (best != k) {
      swap_symmetric(a, k, best);
      std::swap(f.order[k], f.order[best]);
      std::swap(variance[k], variance[best]);
      for (int64_t j = 0; j < k; ++j) std::swap(f.L(k, j), f.L(best, j));
      ++f.exchanges;
    }
    const double noise = regress(k);
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

}  // namespace orthobatch::core
