#pragma once
// The algebra of one layer between the passes over the data: from statistics to Z = P X + q, and
// from the products of the backward pass to ∇γ, ∇S and ∇Σ. All N×N, all double, no tensors.

#include <memory>

#include "core/block_matrix.h"
#include "core/method.h"

namespace orthobatch {

/// Learned values; an empty vector means the layer does not have them.
struct LayerParameters {
  Vector gamma;
  Vector bias;
  Vector skew;
};

/// Z = P (X − μ) + b, with what the pullback needs.
struct Fold {
  Vector mean;                                   // μ
  std::vector<std::unique_ptr<Factor>> factors;  // one per block; none from a running transform
  BlockMatrix T;
  Matrix W;       // empty without rotation
  BlockMatrix P;  // R T

  /// How much larger the terms of T (X − μ) may be than their sum, which has unit variance:
  /// max_i Σ_j |T_ij| σ_j. Rounding is amplified by it. 1 from a running transform, which has no σ.
  double amplification = 1.0;

  // Over all blocks, as Factor has them.
  int64_t floored() const;
  int64_t null() const;
  int64_t exchanges() const;
  /// The conditioned covariance that the running average takes.
  BlockMatrix conditioned() const;
};

struct LayerGradients {
  Vector gamma;
  Vector skew;
  BlockMatrix sigma;  // ∇Σ, symmetric
};

class LayerAlgebra {
 public:
  LayerAlgebra(const LayerSpec& spec, int64_t channels);

  /// Block size of Σ and T: 1 for BN, the group size, or N.
  int64_t block() const { return block_; }
  /// Block size of P and B: that of T, or N with a rotation.
  int64_t product_block() const { return rotation_ ? channels_ : block_; }

  Fold fold(const Vector& mean, const BlockMatrix& sigma, const LayerParameters& p) const;
  /// From the running average of the conditioned covariance.
  Fold fold_average(const Vector& mean, const BlockMatrix& sigma, const LayerParameters& p) const;
  /// From a running average of T.
  Fold fold_transform(const Vector& mean, const BlockMatrix& T, const LayerParameters& p) const;

  /// From B = G Xcᵀ. ∇Σ is left empty where it is not needed: the statistics are constants
  /// (evaluation), or the input wants no gradient.
  LayerGradients pullback(const Fold& fold, const LayerParameters& p, const BlockMatrix& B,
                          bool needs_sigma) const;

 private:
  using FactorMember = std::unique_ptr<Factor> (Method::*)(const Matrix&, const Vector&) const;
  Fold fold_with(FactorMember factor, const Vector& mean, const BlockMatrix& sigma,
                 const LayerParameters& p) const;
  void attach_rotation(Fold& fold, const LayerParameters& p) const;
  Vector outer_scale(const LayerParameters& p) const;  // γ where it is part of R, else ones

  std::unique_ptr<Method> method_;
  Gradient gradient_;
  int64_t channels_;
  int64_t block_;
  bool rotation_;
  bool scale_inside_;
};

}  // namespace orthobatch
