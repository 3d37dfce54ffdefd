#pragma once

namespace orthobatch::tolerance {

constexpr double gradient = 1e-7;   // relative, exact gradient against central differences
constexpr double reference = 1e-9;  // relative, double, against composed torch operations
constexpr double float_against_double = 1e-5;  // relative, output and gradient
constexpr double whiteness = 1e-10;    // max |cov(Z) − I|, double, ε = 0, well-conditioned
constexpr double equivariance = 1e-9;  // relative, double
constexpr double passes = 1e-12;       // relative, double, kernels against ATen
constexpr double folded = 1e-12;       // relative, double, a folded layer against the pair
constexpr double float_passes = 5e-6;  // relative, float sums over a tile, not over all samples
constexpr double batch_norm = 1e-5;    // float, ours against torch's

}  // namespace orthobatch::tolerance
