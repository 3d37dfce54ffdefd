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
Vector variances(const LayerMap& map) {
  Vector out;
  for (const auto& f : map.factors)
    for (const double v : diag(f->conditioned)) out.push_back(std::max(v, 0.0));
  out.resize(map.mean.size());
  return out;
}

Cancellation cancellation_of(const LayerMap& map) {
  const Vector variance = variances(map);
  Vector terms(map.mean.size()), squares(map.mean.size());
  for (int64_t b = 0; b < map.T.count(); ++b) {
    const int64_t width = map.T.width(b), first = map.T.offset(b);
    const double* T = map.T.data(b);
    Vector deviation(width), raw(width);
    for (int64_t j = 0; j < width; ++j) {
      const double v = variance[first + j], mean = map.mean[first + j];
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

std::vector<int64_t> without_variance(const BlockMatrix& sigma) {
  std::vector<int64_t> out;
  for (int64_t b = 0; b < sigma.count(); ++b)
    for (int64_t i = 0, width = sigma.width(b); i < width; ++i)
      if (sigma.data(b)[i * width + i] == 0) out.push_back(sigma.offset(b) + i);
  return out;
}

/// work(b) for each block, the blocks on the threads where there is something to do.
template <typename Work>
void for_blocks(const BlockMatrix& blocks, const Work& work) {
  constexpr int64_t enough = 16 * 16 * 16;  // a block of 16 channels is worth a thread
  const int64_t width = std::max<int64_t>(blocks.block(), 1);
  const int64_t grain = std::max<int64_t>(1, enough / (width * width * width));
  parallel_ranges(blocks.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) work(b);
  });
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

int64_t LayerMap::floored() const { return total(factors, &Factor::floored); }
int64_t LayerMap::null() const { return total(factors, &Factor::null); }
int64_t LayerMap::empty() const { return total(factors, &Factor::empty); }
int64_t LayerMap::exchanges() const { return total(factors, &Factor::exchanges); }

BlockMatrix LayerMap::conditioned() const {
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

LayerMap LayerAlgebra::map(Statistics statistics, LayerParameters parameters, Real real) const {
  drop_unresolved(statistics.covariance, real);
  LayerMap out;
  out.mean = std::move(statistics.mean);
  out.samples = statistics.samples;
  out.parameters = std::move(parameters);
  out.constant = without_variance(statistics.covariance);
  factor_blocks(out, &Method::factor, statistics.covariance);
  attach_affine(out, real);
  return out;
}

LayerMap LayerAlgebra::map_of_average(const Vector& mean, const BlockMatrix& sigma,
                                      LayerParameters parameters, Real real) const {
  LayerMap out;
  out.mean = mean;
  out.parameters = std::move(parameters);
  factor_blocks(out, &Method::factor_average, sigma);
  attach_affine(out, real);
  return out;
}

LayerMap LayerAlgebra::map_of_transform(const Vector& mean, const BlockMatrix& T,
                                        LayerParameters parameters, Real real) const {
  LayerMap out;
  out.mean = mean;
  out.parameters = std::move(parameters);
  out.T = T;
  attach_affine(out, real);
  return out;
}

void LayerAlgebra::factor_blocks(LayerMap& map, FactorMember factor,
                                 const BlockMatrix& sigma) const {
  const LayerParameters& p = map.parameters;
  map.T = BlockMatrix(channels_, block_);
  const Vector inner = scale_inside_ && !p.gamma.empty() ? p.gamma : Vector(channels_, 1.0);
  map.factors.resize(sigma.count());
  for_blocks(sigma, [&](int64_t b) {
    const Vector gamma = slice(inner, sigma.offset(b), sigma.width(b));
    map.factors[b] = (*method_.*factor)(sigma.get(b), gamma);
    map.T.set(b, map.factors[b]->T);
  });
}

// P = R T with R = Γ, W or Γ W
void LayerAlgebra::attach_affine(LayerMap& map, Real real) const {
  const LayerParameters& p = map.parameters;
  BlockMatrix P = map.T;
  if (rotation_) {
    map.W = cayley(p.skew, channels_);
    P = BlockMatrix(channels_, channels_);
    P.set(0, linalg::matmul(map.W, map.T.dense()));
  }
  P = scale_rows(outer_scale(p), std::move(P));
  map.cancellation = cancellation_of(map);
  map.affine = affine_map(std::move(P), map.T, map.mean, p.bias, map.cancellation, real);
}

Vector LayerAlgebra::outer_scale(const LayerParameters& p) const {
  return p.gamma.empty() || scale_inside_ ? Vector(channels_, 1.0) : p.gamma;
}

LayerGradients LayerAlgebra::pullback(const LayerMap& map, const AffineMap& affine,
                                      GradientSums sums, Wanted wanted) const {
  LayerGradients out;
  BlockMatrix dSigma;
  if (needs_sums(map, wanted)) {
    out.bias = sums.sum;
    const BlockMatrix dT =
        pullback_rotation(map, about_mean(std::move(sums), map.mean, affine.center), out);
    if (wanted.input && map.samples > 0) {
      dSigma = BlockMatrix(channels_, block_);
      for_blocks(dT, [&](int64_t b) {
        Matrix of_block = sym(map.factors[b]->pullback(dT.get(b)));
        // What is null has no gradient. It is 0 here, not the rounding of Q X + r, whatever X is.
        if (map.factors[b]->null > 0)
          for (const int64_t c : map.constant)
            if (const int64_t k = c - dT.offset(b); k >= 0 && k < of_block.rows())
              for (int64_t i = 0; i < of_block.rows(); ++i) of_block(i, k) = of_block(k, i) = 0;
        dSigma.set(b, of_block);
      });
    }
  }
  if (wanted.input)
    out.input = map.samples > 0
                    ? gradient_map(affine, map.mean, map.samples, out.bias, std::move(dSigma))
                    : gradient_map(affine);
  return out;
}

/// ∇T = Rᵀ B inside the blocks of T; ∇γ and ∇S on the way.
BlockMatrix LayerAlgebra::pullback_rotation(const LayerMap& map, BlockMatrix B,
                                            LayerGradients& out) const {
  const LayerParameters& p = map.parameters;
  BlockMatrix dT;
  if (rotation_) {
    const Matrix T = map.T.dense(), dense = B.get(0);
    const Matrix dR = linalg::matmul_nt(dense, T);  // ∇R = B Tᵀ
    if (!p.gamma.empty()) out.gamma = core::rowwise_dot(dR, map.W);
    const Matrix dW = core::scale_rows(outer_scale(p), dR);  // ∇W = Γ ∇R
    out.skew = pullback_cayley(p.skew, map.W, dW, gradient_);
    const Matrix scaled = core::scale_rows(outer_scale(p), dense);  // Γ B
    dT = BlockMatrix::from_dense(linalg::matmul_tn(map.W, scaled), block_);
  } else {
    if (!p.gamma.empty() && !scale_inside_)
      out.gamma = rowwise_dot(B, map.T);  // ∇γ_i = Σ_j B_ij T_ij
    dT = scale_rows(outer_scale(p), std::move(B));
  }
  if (scale_inside_ && !p.gamma.empty())
    for (int64_t b = 0; b < dT.count(); ++b) {
      const Vector dgamma = map.factors[b]->pullback_scale(dT.get(b));
      out.gamma.insert(out.gamma.end(), dgamma.begin(), dgamma.end());
    }
  return dT;
}

}  // namespace orthobatch::core
