#include "core/affine.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::core {
namespace {

/// Up to here a float product is within 1e-5 of the exact one: the error of the output is about
/// 3e-8 times the amplification (duplicated channels with ε = 1e-5 have 450).
constexpr double largest_float_amplification = 128;

/// A mean that is larger than this in the units of the output is taken off before the product: the
/// error it would bring is, as above, about 3e-8 times it.
constexpr double largest_float_mean = 64;

/// Folded, the sums over all samples are those of a convolution's weight gradient, which oneDNN
/// makes in float: an error of about 1e-8 √places, 5e-7 at 2,500 of them and 2e-6 at 40,000, times
/// the cancellation of the raw data. In double it is 1e-9 of that.
constexpr double largest_uncentered_float = 8, largest_uncentered_double = 1024;

/// Entries beyond this are left in double: with a gradient they may leave float's range.
constexpr double largest_float_entry = 1e30;

double largest_entry(const BlockMatrix& m) {
  double largest = 0;
  for (const double x : m.values()) largest = std::max(largest, std::abs(x));
  return largest;
}

/// The mean rounded to what the type holds, so that X − center is exact where it matters.
Vector rounded(Vector mean, Real real) {
  if (real == Real::float32)
    for (double& m : mean) m = static_cast<float>(m);
  return mean;
}

/// The largest sum of the terms of T μ: the mean in the units of the output.
double size_of_mean(const BlockMatrix& T, const Vector& mean) {
  double largest = 0;
  for (int64_t b = 0; b < T.count(); ++b) {
    const int64_t width = T.width(b), first = T.offset(b);
    const double* block = T.data(b);
    Vector sizes(width);
    add_row_sums(width, width, sizes.data(), [&](int64_t i, int64_t j) {
      return std::abs(block[i * width + j] * mean[first + j]);
    });
    for (const double size : sizes) largest = std::max(largest, size);
  }
  return largest;
}

/// μ − center
Vector rest_of(Vector mean, const Vector& center) {
  for (size_t c = 0; c < mean.size(); ++c) mean[c] -= center[c];
  return mean;
}

/// A power of two s such that Q·s and (X − center)/s are both of moderate size where Q·X is: Q goes
/// with 1/σ², which leaves float's range long before 1/σ does. 1 where Q itself is moderate.
double balance(const BlockMatrix& Q) {
  const double largest = largest_entry(Q);
  if (!(largest > 0) || std::isinf(largest)) return 1.0;
  const double exponent = std::log2(largest);
  return std::abs(exponent) < 60 ? 1.0 : std::exp2(std::round(-0.5 * exponent));
}

}  // namespace

double least_deviation(Real real) { return real == Real::float32 ? 0x1p-123 : 1e-100; }

AffineMap affine_map(BlockMatrix P, const BlockMatrix& T, const Vector& mean, const Vector& bias,
                     const Cancellation& cancellation, Real real) {
  AffineMap out;
  out.P = std::move(P);
  const bool single = real == Real::float32;
  const bool moderate = largest_entry(out.P) <= largest_float_entry;
  out.exact_uncentered =
      moderate && cancellation.raw <= (single ? largest_uncentered_float : largest_uncentered_double);
  // Nothing is subtracted, which saves a copy of each tile, where that is as exact. Double data
  // and those of single channels have their mean taken off in any case: there it costs nothing.
  const bool centers = !single || T.block() == 1 || size_of_mean(T, mean) > largest_float_mean;
  out.center = centers ? rounded(mean, real) : Vector(mean.size());
  out.offset = multiply(out.P, rest_of(mean, out.center));
  for (size_t c = 0; c < mean.size(); ++c)
    out.offset[c] = (bias.empty() ? 0.0 : bias[c]) - out.offset[c];
  if (single && (cancellation.centered > largest_float_amplification || !moderate))
    out.sums = Sums::in_double;
  return out;
}

AffineMap without_center(AffineMap map) {
  const Vector product = multiply(map.P, map.center);
  for (size_t c = 0; c < product.size(); ++c) map.offset[c] -= product[c];
  map.center.assign(map.center.size(), 0.0);
  return map;
}

BlockMatrix about_mean(GradientSums sums, const Vector& mean, const Vector& center) {
  for (int64_t b = 0; b < sums.B.count(); ++b) {
    const int64_t width = sums.B.width(b), first = sums.B.offset(b);
    double* block = sums.B.data(b);
    parallel_rows(width, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < width; ++j)
          block[i * width + j] -= sums.sum[first + i] * (mean[first + j] - center[first + j]);
    });
  }
  return std::move(sums.B);
}

GradientMap gradient_map(const AffineMap& forward) {
  return {forward.P, {}, forward.center, Vector(forward.center.size()), forward.sums, 1.0};
}

GradientMap gradient_map(const AffineMap& forward, const Vector& mean, double samples,
                         const Vector& gradient_sum, BlockMatrix dSigma) {
  GradientMap out = gradient_map(forward);
  out.Q = std::move(dSigma);
  out.Q *= 2.0 / samples;
  // r = −Pᵀ ∇b/M − Q (μ − center)
  const Vector Pt_sum = multiply_transposed(forward.P, gradient_sum),
               Q_rest = multiply(out.Q, rest_of(mean, forward.center));
  for (size_t c = 0; c < out.offset.size(); ++c) out.offset[c] = -Pt_sum[c] / samples - Q_rest[c];
  out.scale = balance(out.Q);
  return out;
}

}  // namespace orthobatch::core
