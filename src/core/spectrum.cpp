#include "core/spectrum.h"

#include <algorithm>
#include <cmath>

#include "core/linalg.h"

namespace orthobatch::core {

Matrix spectral_function(const Matrix& U, const Vector& f) {
  return sym(linalg::symmetric_matmul_nt(scale_cols(U, f), U));
}

Matrix add_to_diagonal(Matrix sigma, double eps) {
  for (int64_t i = 0; i < sigma.rows(); ++i) sigma(i, i) += eps;
  return sigma;
}

double clamped_inverse(double x, double K) {
  const double inverse = 1.0 / x;
  return std::isinf(inverse) ? 0.0 : std::clamp(inverse, -K, K);
}

Vector inverse_roots(const Vector& lambda, double eps, Factor& counts) {
  const double noise = linalg::null_tolerance(static_cast<int64_t>(lambda.size())) * lambda[0];
  Vector out(lambda.size());
  for (size_t k = 0; k < out.size(); ++k) {
    counts.empty += is_empty(lambda[k], eps);
    if (eps == 0 && lambda[k] <= noise)
      ++counts.null;
    else
      out[k] = 1.0 / std::sqrt(std::max(lambda[k], eps));
  }
  return out;
}

}  // namespace orthobatch::core
