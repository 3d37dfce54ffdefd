#include "core/layer.h"

#include <algorithm>
#include <cmath>

#include "core/cayley.h"
#include "core/linalg.h"
#include "core/registry.h"

namespace orthobatch {
namespace {

Vector slice(const Vector& v, int64_t offset, int64_t width) {
  return {v.begin() + offset, v.begin() + offset + width};
}

/// diag(rows) · A
BlockMatrix scale_rows(const Vector& rows, BlockMatrix a) {
  for (int64_t b = 0; b < a.count(); ++b) {
    const int64_t width = a.width(b);
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 0; j < width; ++j) a.data(b)[i * width + j] *= rows[a.offset(b) + i];
  }
  return a;
}

/// max_i Σ_j |T_ij| σ_j
double amplification_of(const Factor& f) {
  Vector deviation = diag(f.conditioned);
  for (double& d : deviation) d = std::sqrt(std::max(d, 0.0));
  double largest = 1.0;
  for (int64_t i = 0; i < f.T.rows(); ++i) {
    double terms = 0;
    for (int64_t j = 0; j < f.T.cols(); ++j) terms += std::abs(f.T(i, j)) * deviation[j];
    largest = std::max(largest, terms);
  }
  return largest;
}

int64_t block_size(const LayerSpec& spec, int64_t channels) {
  if (find_method(spec.method()).per_channel) return 1;
  return spec.groups() > 0 ? std::min(spec.groups(), channels) : channels;
}

int64_t total(const std::vector<std::unique_ptr<Factor>>& factors, int64_t Factor::*count) {
  int64_t sum = 0;
  for (const auto& f : factors) sum += (*f).*count;
  return sum;
}

}  // namespace

int64_t Fold::floored() const { return total(factors, &Factor::floored); }
int64_t Fold::null() const { return total(factors, &Factor::null); }
int64_t Fold::exchanges() const { return total(factors, &Factor::exchanges); }

BlockMatrix Fold::conditioned() const {
  BlockMatrix out(T.size(), T.block());
  for (int64_t b = 0; b < out.count(); ++b) out.set(b, factors[b]->conditioned);
  return out;
}

LayerAlgebra::LayerAlgebra(const LayerSpec& spec, int64_t channels)
    : method_(make_method(spec)),
      gradient_(spec.gradient()),
      channels_(channels),
      block_(block_size(spec, channels)),
      rotation_(spec.has_rotation()),
      // With ->W the method itself has no parameters (the paper's Table 1, footnote a).
      scale_inside_(find_method(spec.method()).scale_inside && !spec.has_rotation()) {}

Fold LayerAlgebra::fold(const Vector& mean, const BlockMatrix& sigma,
                        const LayerParameters& p) const {
  return fold_with(&Method::factor, mean, sigma, p);
}

Fold LayerAlgebra::fold_average(const Vector& mean, const BlockMatrix& sigma,
                                const LayerParameters& p) const {
  return fold_with(&Method::factor_average, mean, sigma, p);
}

Fold LayerAlgebra::fold_transform(const Vector& mean, const BlockMatrix& T,
                                  const LayerParameters& p) const {
  Fold out;
  out.mean = mean;
  out.T = T;
  attach_rotation(out, p);
  return out;
}

Fold LayerAlgebra::fold_with(FactorMember factor, const Vector& mean, const BlockMatrix& sigma,
                             const LayerParameters& p) const {
  Fold out;
  out.mean = mean;
  out.T = BlockMatrix(channels_, block_);
  const Vector inner = scale_inside_ && !p.gamma.empty() ? p.gamma : Vector(channels_, 1.0);
  for (int64_t b = 0; b < sigma.count(); ++b) {
    const Vector gamma = slice(inner, sigma.offset(b), sigma.width(b));
    out.factors.push_back((*method_.*factor)(sigma.get(b), gamma));
    out.T.set(b, out.factors.back()->T);
    out.amplification = std::max(out.amplification, amplification_of(*out.factors.back()));
  }
  attach_rotation(out, p);
  return out;
}

// P = R T with R = Γ, W or Γ W
void LayerAlgebra::attach_rotation(Fold& fold, const LayerParameters& p) const {
  if (rotation_) {
    fold.W = cayley(p.skew, channels_);
    fold.P = BlockMatrix(channels_, channels_);
    fold.P.set(0, linalg::matmul(fold.W, fold.T.dense()));
  } else {
    fold.P = fold.T;
  }
  fold.P = scale_rows(outer_scale(p), std::move(fold.P));
}

Vector LayerAlgebra::outer_scale(const LayerParameters& p) const {
  return p.gamma.empty() || scale_inside_ ? Vector(channels_, 1.0) : p.gamma;
}

LayerGradients LayerAlgebra::pullback(const Fold& fold, const LayerParameters& p,
                                      const BlockMatrix& B, bool needs_sigma) const {
  LayerGradients out;
  const BlockMatrix scaled = scale_rows(outer_scale(p), B);  // Γ B
  BlockMatrix dT;                                            // Rᵀ B, inside the blocks of T
  if (rotation_) {
    const Matrix T = fold.T.dense(), dense = B.get(0), scaled_dense = scaled.get(0);
    const Matrix dR = linalg::matmul_nt(dense, T);  // ∇R = B Tᵀ
    if (!p.gamma.empty()) out.gamma = rowwise_dot(dR, fold.W);
    const Matrix dW = orthobatch::scale_rows(outer_scale(p), dR);  // ∇W = Γ ∇R
    out.skew = pullback_cayley(p.skew, fold.W, dW, gradient_);
    dT = BlockMatrix::from_dense(linalg::matmul_tn(fold.W, scaled_dense), block_);
  } else {
    dT = scaled;
    if (!p.gamma.empty() && !scale_inside_)
      for (int64_t b = 0; b < B.count(); ++b) {
        const Vector dgamma = rowwise_dot(B.get(b), fold.T.get(b));  // ∇γ_i = Σ_j B_ij T_ij
        out.gamma.insert(out.gamma.end(), dgamma.begin(), dgamma.end());
      }
  }
  if (scale_inside_ && !p.gamma.empty())
    for (int64_t b = 0; b < dT.count(); ++b) {
      const Vector dgamma = fold.factors[b]->pullback_scale(dT.get(b));
      out.gamma.insert(out.gamma.end(), dgamma.begin(), dgamma.end());
    }
  if (!needs_sigma) return out;

  out.sigma = BlockMatrix(channels_, block_);
  for (int64_t b = 0; b < dT.count(); ++b)
    out.sigma.set(b, sym(fold.factors[b]->pullback(dT.get(b))));
  return out;
}

}  // namespace orthobatch
