#pragma once
// The affine maps of a layer, as the passes over the data take them, and the precision they are
// computed in: what is subtracted from float data before it is multiplied, and where the products
// are summed in double. X is N channels × M samples; G is the gradient of Z.
//
//   Z  = P (X − center) + offset
//   ∇X = Pᵀ G + Q (X − center) + offset

#include "core/block_matrix.h"

namespace orthobatch::core {

/// The type of the data; statistics and N×N matrices are double whatever it is.
enum class Real { float32, float64 };

/// The type in which products with float data are summed; with double data it is double.
enum class Sums { in_type, in_double };

/// Z = P (X − center) + offset.
struct AffineMap {
  BlockMatrix P;
  Vector center, offset;
  Sums sums = Sums::in_type;
  /// P X + q, without a center and summed in the data's own type, is as exact: P may go into the
  /// weights of what reads Z.
  bool exact_uncentered = true;
};

/// The same map with nothing subtracted: Z = P X + q.
AffineMap without_center(AffineMap map);

/// What the backward pass sums over samples. Sums of parts of the data add up to those of the
/// whole.
struct GradientSums {
  BlockMatrix B;  // G (X − center)ᵀ
  Vector sum;     // G 1
};

/// ∇X = Pᵀ G + (Q scale) ((X − center) / scale) + offset; an empty Q leaves its term out.
struct GradientMap {
  BlockMatrix P, Q;
  Vector center, offset;
  Sums sums = Sums::in_type;
  double scale = 1;  // a power of two
};

/// Deviations below this are noise in that type: so near its smallest number that 1/σ, or the
/// σ^(−3) of the gradient, leaves its range.
double least_deviation(Real real);

/// How much larger the terms of T X are than their sum, which has unit variance.
struct Cancellation {
  double centered = 1;  // all terms of T (X − μ): max_i Σ_j |T_ij| σ_j
  /// Of T X, as independent errors add up, over all rows: √(1/N Σ_ij T_ij² (σ_j² + μ_j²)).
  double raw = 1;
};

/// The map Z = P (X − μ) + bias; an empty bias is 0. T is the whitening transform in P = R T.
AffineMap affine_map(BlockMatrix P, const BlockMatrix& T, const Vector& mean, const Vector& bias,
                     const Cancellation& cancellation, Real real);

/// B about the mean, G (X − μ)ᵀ, from the sums about `center`.
BlockMatrix about_mean(GradientSums sums, const Vector& mean, const Vector& center);

/// The map of ∇X behind `forward`, whose mean and covariance depend on X: of `samples` samples in
/// all, with Q = (2/M) ∇Σ.
GradientMap gradient_map(const AffineMap& forward, const Vector& mean, double samples,
                         const Vector& gradient_sum, BlockMatrix dSigma);

/// The same where mean and covariance are constants.
GradientMap gradient_map(const AffineMap& forward);

}  // namespace orthobatch::core
