#include "core/layer.h"

#include <algorithm>
#include <cmath>

#include "core/cayley.h"
#include "core/linalg.h"
#include "core/parallel.h"
#include "core/registry.h"

namespace orthobatch::core {
namespace {

Vector slice(const Vector& v, int64_t offset, int64_t width) {
  return {v.begin() + offset, v.begin() + offset + width};
}

/// diag(rows) · A
BlockMatrix scale_rows(const Vector& rows, BlockMatrix a) {
  for (int64_t b = 0; b < a.count(); ++b) {
    const int64_t width = a.width(b);
    parallel_rows(width, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < width; ++j) a.data(b)[i * width + j] *= rows[a.offset(b) + i];
    });
  }
  return a;
}

/// Σ_j A_ij B_ij for each row i.
Vector rowwise_dot(const BlockMatrix& a, const BlockMatrix& other) {
  Vector out(a.size());
  for (int64_t b = 0; b < a.count(); ++b) {
    const int64_t width = a.width(b), first = a.offset(b);
    const double *left = a.data(b), *right = other.data(b);
    add_row_sums(width, width, &out[first],
                 [&](int64_t i, int64_t j) { return left[i * width + j] * right[i * width + j]; });
  }
  return out;
}

/// σ_j² of all channels; zeros where there are no factors.
Vector variances(const Fold& fold) {
  Vector out;
  for (const auto& f : fold.factors)
    for (const double v : diag(f->conditioned)) out.push_back(std::max(v, 0.0));
  out.resize(fold.mean.size());
  return out;
}

Cancellation cancellation_of(const Fold& fold) {
  const Vector variance = variances(fold);
  Vector terms(fold.mean.size()), squares(fold.mean.size());
  for (int64_t b = 0; b < fold.T.count(); ++b) {
    const int64_t width = fold.T.width(b), first = fold.T.offset(b);
    const double* T = fold.T.data(b);
    Vector deviation(width), raw(width);
    for (int64_t j = 0; j < width; ++j) {
      const double v = variance[first + j], mean = fold.mean[first + j];
      deviation[j] = std::sqrt(v);
      raw[j] = v + mean * mean;
    }
    add_row_sums(width, width, &terms[first],
                 [&](int64_t i, int64_t j) { return std::abs(T[i * width + j]) * deviation[j]; });
    add_row_sums(width, width, &squares[first], [&](int64_t i, int64_t j) {
      return T[i * width + j] * T[i * width + j] * raw[j];
    });
  }
  Cancellation out;
  for (const double t : terms) out.centered = std::max(out.centered, t);
  double all = 0;
  for (const double s : squares) all += s;
  out.raw = std::sqrt(all / static_cast<double>(squares.size()));
  return out;
}

/// work(b) for each block, the blocks on the threads where there is something to do.
template <typename Work>
void for_blocks(const BlockMatrix& blocks, const Work& work) {
  constexpr int64_t enough = 16;  // channels of a block that are worth a thread
  if (blocks.block() >= enough) return parallel_for(blocks.count(), work);
  for (int64_t b = 0; b < blocks.count(); ++b) work(b);
}

int64_t block_size(const LayerSpec& spec, int64_t channels) {
  if (find_method(spec.method()).per_channel) return 1;
  return spec.group_size() > 0 ? std::min(spec.group_size(), channels) : channels;
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

Fold LayerAlgebra::fold(Statistics statistics, const LayerParameters& p, Real real) const {
  drop_unresolved(statistics.covariance, real);
  Fold out;
  out.mean = std::move(statistics.mean);
  out.samples = statistics.samples;
  factor_blocks(out, &Method::factor, statistics.covariance, p);
  attach_map(out, p, real);
  return out;
}

Fold LayerAlgebra::fold_average(const Vector& mean, const BlockMatrix& sigma,
                                const LayerParameters& p, Real real) const {
  Fold out;
  out.mean = mean;
  factor_blocks(out, &Method::factor_average, sigma, p);
  attach_map(out, p, real);
  return out;
}

Fold LayerAlgebra::fold_transform(const Vector& mean, const BlockMatrix& T,
                                  const LayerParameters& p, Real real) const {
  Fold out;
  out.mean = mean;
  out.T = T;
  attach_map(out, p, real);
  return out;
}

void LayerAlgebra::factor_blocks(Fold& fold, FactorMember factor, const BlockMatrix& sigma,
                                 const LayerParameters& p) const {
  fold.T = BlockMatrix(channels_, block_);
  const Vector inner = scale_inside_ && !p.gamma.empty() ? p.gamma : Vector(channels_, 1.0);
  fold.factors.resize(sigma.count());
  for_blocks(sigma, [&](int64_t b) {
    const Vector gamma = slice(inner, sigma.offset(b), sigma.width(b));
    fold.factors[b] = (*method_.*factor)(sigma.get(b), gamma);
    fold.T.set(b, fold.factors[b]->T);
  });
}

// P = R T with R = Γ, W or Γ W
void LayerAlgebra::attach_map(Fold& fold, const LayerParameters& p, Real real) const {
  BlockMatrix P = fold.T;
  if (rotation_) {
    fold.W = cayley(p.skew, channels_);
    P = BlockMatrix(channels_, channels_);
    P.set(0, linalg::matmul(fold.W, fold.T.dense()));
  }
  P = scale_rows(outer_scale(p), std::move(P));
  fold.cancellation = cancellation_of(fold);
  fold.map = affine_map(std::move(P), fold.T, fold.mean, p.bias, fold.cancellation, real);
}

Vector LayerAlgebra::outer_scale(const LayerParameters& p) const {
  return p.gamma.empty() || scale_inside_ ? Vector(channels_, 1.0) : p.gamma;
}

LayerGradients LayerAlgebra::pullback(const Fold& fold, const AffineMap& map,
                                      const LayerParameters& p, GradientSums sums,
                                      Wanted wanted) const {
  LayerGradients out;
  BlockMatrix dSigma;
  if (needs_sums(fold, wanted)) {
    out.bias = sums.sum;
    const BlockMatrix dT =
        pullback_rotation(fold, p, about_mean(std::move(sums), fold.mean, map.center), out);
    if (wanted.input && fold.samples > 0) {
      dSigma = BlockMatrix(channels_, block_);
      for_blocks(dT, [&](int64_t b) { dSigma.set(b, sym(fold.factors[b]->pullback(dT.get(b)))); });
    }
  }
  if (wanted.input)
    out.input = fold.samples > 0
                    ? gradient_map(map, fold.mean, fold.samples, out.bias, std::move(dSigma))
                    : gradient_map(map);
  return out;
}

/// ∇T = Rᵀ B inside the blocks of T; ∇γ and ∇S on the way.
BlockMatrix LayerAlgebra::pullback_rotation(const Fold& fold, const LayerParameters& p,
                                            BlockMatrix B, LayerGradients& out) const {
  BlockMatrix dT;
  if (rotation_) {
    const Matrix T = fold.T.dense(), dense = B.get(0);
    const Matrix dR = linalg::matmul_nt(dense, T);  // ∇R = B Tᵀ
    if (!p.gamma.empty()) out.gamma = core::rowwise_dot(dR, fold.W);
    const Matrix dW = core::scale_rows(outer_scale(p), dR);  // ∇W = Γ ∇R
    out.skew = pullback_cayley(p.skew, fold.W, dW, gradient_);
    const Matrix scaled = core::scale_rows(outer_scale(p), dense);  // Γ B
    dT = BlockMatrix::from_dense(linalg::matmul_tn(fold.W, scaled), block_);
  } else {
    if (!p.gamma.empty() && !scale_inside_)
      out.gamma = rowwise_dot(B, fold.T);  // ∇γ_i = Σ_j B_ij T_ij
    dT = scale_rows(outer_scale(p), std::move(B));
  }
  if (scale_inside_ && !p.gamma.empty())
    for (int64_t b = 0; b < dT.count(); ++b) {
      const Vector dgamma = fold.factors[b]->pullback_scale(dT.get(b));
      out.gamma.insert(out.gamma.end(), dgamma.begin(), dgamma.end());
    }
  return dT;
}

}  // namespace orthobatch::core
