// X_corr: BN without parameters, then X, on the matrices alone: no extra pass over the data.
// Blanchette & Laganière, "Normalization followed by decorrelation".
//
//   v = diag(Σ) + ε_bn,  δ = v^(−1/2),  Φ = diag(δ) Σ diag(δ),  T = factor_X(Φ) diag(δ)

#include <cmath>

#include "core/registry.h"

namespace orthobatch::core {
namespace {

struct CorrelationFactor : Factor {
  std::unique_ptr<Factor> inner;  // factor_X(Φ)
  Matrix sigma;
  Vector delta;

  // ∇Φ = pullback_X(∇T V^(−1/2))
  // ∇δ_j = Σ_i ∇T_ij (T_X)_ij + 2 Σ_k ∇Φ_jk Σ_jk δ_k
  // ∇Σ = V^(−1/2) ∇Φ V^(−1/2) + diag(−½ ∇δ ∘ v^(−3/2))
  Matrix pullback(const Matrix& dT) const override {
    const Matrix dPhi = sym(inner->pullback(scale_cols(dT, delta)));
    const Vector through_T = rowwise_dot(transpose(dT), transpose(inner->T));
    const Vector through_Phi = rowwise_dot(dPhi, scale_cols(sigma, delta));
    Matrix dsigma = scale_rows(delta, scale_cols(dPhi, delta));
    for (size_t j = 0; j < delta.size(); ++j) {
      const double ddelta = through_T[j] + 2 * through_Phi[j];
      dsigma(j, j) += -0.5 * ddelta * delta[j] * delta[j] * delta[j];
    }
    return dsigma;
  }

  std::vector<int64_t> branch() const override { return inner->branch(); }
  std::vector<std::string> kinks() const override { return inner->kinks(); }
};

// The running average takes Σ as it is, so that evaluation can take the same two steps.
class Correlation : public Method {
 public:
  Correlation(std::unique_ptr<Method> inner, double eps_bn)
      : inner_(std::move(inner)), eps_bn_(eps_bn) {}

  std::unique_ptr<Factor> factor(const Matrix& sigma, const Vector& gamma) const override {
    auto f = std::make_unique<CorrelationFactor>();
    for (double s : diag(sigma))
      f->delta.push_back(s + eps_bn_ > 0 ? 1 / std::sqrt(s + eps_bn_) : 0);
    f->inner = inner_->factor(scale_rows(f->delta, scale_cols(sigma, f->delta)), gamma);
    f->T = scale_cols(f->inner->T, f->delta);
    f->conditioned = sigma;
    f->sigma = sigma;
    f->floored = f->inner->floored;
    f->null = f->inner->null;
    f->empty = f->inner->empty;
    f->exchanges = f->inner->exchanges;
    return f;
  }

 private:
  std::unique_ptr<Method> inner_;
  double eps_bn_;
};

}  // namespace

MethodInfo correlation_of(const MethodInfo& inner, std::string paper) {
  MethodInfo info = inner;
  info.name = inner.name + "_corr";
  info.formula = inner.name + "(Φ) V^(−1/2), Φ = V^(−1/2) Σ V^(−1/2), V = diag(Σ)+ε_bn";
  info.description = "unit variances first, then " + inner.name + " of the correlations";
  info.paper = std::move(paper);
  Parameter eps_bn = eps_parameter();
  eps_bn.name = "eps_bn";
  eps_bn.positional = false;
  eps_bn.meaning = "ε of the normalization before it";
  info.parameters.push_back(eps_bn);
  info.make = [make = inner.make](const Arguments& a) {
    return std::make_unique<Correlation>(make(a), a["eps_bn"]);
  };
  return info;
}

}  // namespace orthobatch::core
