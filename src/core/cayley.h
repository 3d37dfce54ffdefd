#pragma once
// W = (I+S)(I−S)^(−1), S skew-symmetric, parametrized by its strictly lower entries in row order.

#include "core/matrix.h"
#include "orthobatch/spec.h"

namespace orthobatch::core {

/// N(N−1)/2
int64_t skew_size(int64_t n);

/// The orthogonal W of the N(N−1)/2 strictly lower entries of S.
Matrix cayley(const Vector& skew, int64_t n);

/// Gradient of those entries from ∇W; `Gradient::paper` is appendix C as printed.
Vector pullback_cayley(const Vector& skew, const Matrix& W, const Matrix& dW, Gradient gradient);

}  // namespace orthobatch::core
