#pragma once
// A = Pᵀ L D Lᵀ P for positive semidefinite A, and the pullback that LDL and PLDLP share.

#include <vector>

#include "core/matrix.h"
#include "orthobatch/spec.h"

namespace orthobatch::core {

struct LdlDecomposition {
  Matrix L;                // unit lower triangular
  Matrix L_inverse;        // L^(−1)
  Vector d;                // pivots, unfloored
  std::vector<bool> null;  // pivot is rounding noise: d = 0, column of L is 0 below the diagonal
  std::vector<int64_t> order;  // (P X)_k = X_order[k]
  int64_t exchanges = 0;       // rows that had to leave their place for a better pivot
  bool tied = false;           // the choice of a pivot was within kink_tolerance of another one
};

enum class Pivoting {
  none,
  /// Bunch and Kaufman's rule, as LAPACK's dsytrf and so MATLAB's ldl have it: row k stays unless
  /// its pivot is small against its column. A semidefinite matrix needs no 2×2 pivots: where the
  /// rule takes one, the row with the largest entry of the column is the pivot here.
  bunch_kaufman,
  largest_diagonal,
};

/// Pivot k is what is left of channel k after its regression on the channels before it, the row k
/// of L^(−1): it is null where it is no larger than the rounding of A carried through that row,
/// null_tolerance · Σ_j (L^(−1))_kj² A_jj. `minimum` > 0 says that no pivot lies under it except by
/// rounding (A = Σ+εI): smaller ones are raised and none is null.
LdlDecomposition ldl(Matrix a, Pivoting pivoting, double minimum);

/// ∇(P A Pᵀ), symmetric, from the gradient of W = D̃^(−1/2) L^(−1).
///   d_floored: D̃;  has_gradient: whether pivot k moves d̃_k (false: floored or null)
/// `Gradient::paper` gives Algorithms 2 and 4 as printed.
Matrix pullback_ldl(const LdlDecomposition& f, const Matrix& W, const Matrix& dW,
                    const Vector& d_floored, const std::vector<bool>& has_gradient,
                    Gradient gradient);

}  // namespace orthobatch::core
