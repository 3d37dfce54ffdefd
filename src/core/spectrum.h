#pragma once
// Pieces that the methods on eigenvalues share.

#include "core/matrix.h"
#include "core/method.h"

namespace orthobatch::core {

/// Relative distance under which `kinks` calls two values equal: finite differences in double
/// cannot step between them.
constexpr double kink_tolerance = 1e-8;

/// U diag(f) Uᵀ
Matrix spectral_function(const Matrix& U, const Vector& f);

/// Σ + εI
Matrix add_to_diagonal(Matrix sigma, double eps);

/// 1/x with infinity taken to 0 and the rest clamped to ±K (the paper's F, Algorithm 6).
double clamped_inverse(double x, double K);

/// λ^(−1/2) of the eigenvalues of Σ+εI, descending. With ε = 0 what is rounding noise is null: 0,
/// counted as `null`. With ε > 0 nothing lies below ε but rounding, which is cut off; what lies near
/// it is counted as `empty`.
Vector inverse_roots(const Vector& lambda, double eps, Factor& counts);

/// Whether a variance with ε in it has no more of its own than that.
inline bool is_empty(double variance, double eps) { return eps > 0 && variance <= 2 * eps; }

}  // namespace orthobatch::core
