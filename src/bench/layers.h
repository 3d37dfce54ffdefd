#pragma once
// The layers section: every candidate at one shape and layout, in turn with a plain product.

#include <vector>

#include "bench/candidates.h"
#include "bench/shapes.h"
#include "bench/timing.h"

namespace orthobatch::bench {

/// Multiply-adds of a whitening layer's products over the samples, in units of N²M: covariance ½,
/// transform 1, B 1, ∇X 2.
constexpr double layer_products = 4.5;

struct LayerTimes {
  Candidate candidate;
  PassTimes all;       ///< on all threads
  PassTimes one;       ///< on one; empty where that was not measured
  Times algebra = {};  ///< the N×N work alone: factorization and pullback; empty for torch's
};

struct LayerResult {
  Shape shape;
  Layout layout;
  Times product;  ///< an N×N matrix times all samples, on all threads: N²M multiply-adds
  std::vector<LayerTimes> rows;

  const LayerTimes* find(Candidate::Kind kind) const;
  const LayerTimes* find(const LayerSpec& spec) const;
  double product_gflops() const;  ///< by the median
};

/// The best a candidate's products could do: as a multiple of it, and as the part of its rate.
struct AgainstProduct {
  double multiple, fraction;
};
AgainstProduct against_product(double milliseconds, double product_milliseconds);

LayerResult measure_layers(const Shape& shape, Layout layout,
                           const std::vector<Candidate>& candidates, const Session& session);

}  // namespace orthobatch::bench
