#pragma once
// The whole algebra of one layer between the passes over the data: statistics in, the map
// Z = P (X − center) + offset out; sums of the backward pass in, ∇γ, ∇b, ∇S and the map
// ∇X = Pᵀ G + Q (X − center) + offset out. All N×N, all double, no tensors. Statistics and sums may
// be those of several processes together (merge, +).

#include <memory>

#include "core/affine.h"
#include "core/method.h"
#include "core/statistics.h"

namespace orthobatch::core {

/// Learned values; an empty vector means the layer does not have them.
struct LayerParameters {
  Vector gamma;
  Vector bias;
  Vector skew;
};

/// Z = P (X − μ) + b, with what the pullback needs.
struct LayerMap {
  Vector mean;         // μ
  double samples = 0;  // M that μ and Σ were taken from; 0: they are constants
  AffineMap affine;    // P = R T
  std::vector<std::unique_ptr<Factor>> factors;  // one per block; none from a running transform
  BlockMatrix T;
  Matrix W;  // empty without rotation
  LayerParameters parameters;
  std::vector<int64_t> constant;  // channels without variance

  /// Rounding is amplified by it. From a running transform, which has no σ, that of the mean alone.
  Cancellation cancellation;

  // Over all blocks, as Factor has them.
  int64_t floored() const;
  int64_t null() const;
  int64_t empty() const;
  int64_t exchanges() const;
  /// The conditioned covariance that the running average takes.
  BlockMatrix conditioned() const;
};

struct LayerGradients {
  Vector gamma;
  Vector bias;
  Vector skew;
  GradientMap input;  // empty where it was not asked for
};

class LayerAlgebra {
 public:
  LayerAlgebra(const LayerSpec& spec, int64_t channels);

  /// Block size of Σ and T: 1 for BN, the group size, or N.
  int64_t block() const { return block_; }
  /// Block size of P and B: that of T, or N with a rotation.
  int64_t product_block() const { return rotation_ ? channels_ : block_; }

  LayerMap map(Statistics statistics, LayerParameters parameters, Real real) const;
  /// From the running average of the conditioned covariance.
  LayerMap map_of_average(const Vector& mean, const BlockMatrix& sigma, LayerParameters parameters,
                          Real real) const;
  /// From a running average of T.
  LayerMap map_of_transform(const Vector& mean, const BlockMatrix& T, LayerParameters parameters,
                            Real real) const;

  /// Which gradients are wanted. Those of the parameters need the sums over samples; so does the
  /// input's where the statistics are the batch's own.
  struct Wanted {
    bool parameters = true, input = true;
  };
  bool needs_sums(const LayerMap& map, Wanted wanted) const {
    return wanted.parameters || (wanted.input && map.samples > 0);
  }
  /// From G (X − center)ᵀ and G 1 over all samples of the statistics, empty where needs_sums says
  /// no. `affine` is the form of the map that the data were seen through: its own, or without_center.
  LayerGradients pullback(const LayerMap& map, const AffineMap& affine, GradientSums sums,
                          Wanted wanted) const;

 private:
  using FactorMember = std::unique_ptr<Factor> (Method::*)(const Matrix&, const Vector&) const;
  void factor_blocks(LayerMap& map, FactorMember factor, const BlockMatrix& sigma) const;
  void attach_affine(LayerMap& map, Real real) const;
  BlockMatrix pullback_rotation(const LayerMap& map, BlockMatrix B, LayerGradients& out) const;
  Vector outer_scale(const LayerParameters& p) const;  // γ where it is part of R, else ones

  std::unique_ptr<Method> method_;
  Gradient gradient_;
  int64_t channels_;
  int64_t block_;
  bool rotation_;
  bool scale_inside_;
};

}  // namespace orthobatch::core
