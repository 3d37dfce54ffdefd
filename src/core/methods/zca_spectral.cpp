// ZCA_spectral(ε,K): T = U Λ^(−1/2) Γ Uᵀ, the scale inside, so that cov(Z) = U Γ² Uᵀ: the spectrum
// of the covariance is replaced by Γ². Blanchette & Laganière, section on ZCA (their first form).

#include <cmath>

#include "core/linalg.h"
#include "core/registry.h"
#include "core/spectrum.h"

namespace orthobatch::core {
namespace {

struct SpectralFactor : Factor {
  Matrix U;
  Vector lambda, gamma;
  Vector root;  // λ^(−1/2), 0 for a null direction
  double K = 0;

  // ∇Σ = U (Ĝ ∘ Δ) Uᵀ with Δij = (γi λi^(−1/2) − γj λj^(−1/2))/(λi − λj), split into a part that
  // is smooth at equal eigenvalues and one that is not, where K applies:
  //   ½(γi+γj) (λi^(−1/2) − λj^(−1/2))/(λi−λj)  +  ½(γi−γj) (λi^(−1/2) + λj^(−1/2)) F
  Matrix pullback(const Matrix& dT) const override {
    Matrix inner = linalg::symmetric_matmul_tn(U, linalg::matmul(sym(dT), U));
    const int64_t n = inner.rows();
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) inner(i, j) *= i == j ? diagonal(i) : difference(i, j);
    return linalg::symmetric_matmul(U, linalg::matmul_nt(inner, U));
  }

  Vector pullback_scale(const Matrix& dT) const override {
    const Matrix G = linalg::symmetric_matmul_tn(U, linalg::matmul(sym(dT), U));
    Vector dgamma(root.size());
    for (size_t k = 0; k < root.size(); ++k) dgamma[k] = G(k, k) * root[k];
    return dgamma;
  }

  std::vector<std::string> kinks() const override {
    std::vector<std::string> out;
    for (size_t k = 0; k + 1 < lambda.size(); ++k)
      if (gamma[k] != gamma[k + 1] && root[k] != 0 &&
          lambda[k] - lambda[k + 1] <= kink_tolerance * lambda[0])
        out.push_back("eigenvalues " + std::to_string(k + 1) + " and " + std::to_string(k + 2) +
                      " coincide and their scales differ");
    return out;
  }

 private:
  double diagonal(int64_t k) const { return -0.5 * gamma[k] * root[k] * root[k] * root[k]; }

  double difference(int64_t i, int64_t j) const {
    if (root[i] == 0 && root[j] == 0) return 0;
    if (root[i] == 0 || root[j] == 0)
      return (gamma[i] * root[i] - gamma[j] * root[j]) / (lambda[i] - lambda[j]);
    const double smooth = -root[i] * root[i] * root[j] * root[j] / (root[i] + root[j]);
    return 0.5 * (gamma[i] + gamma[j]) * smooth + 0.5 * (gamma[i] - gamma[j]) *
                                                      (root[i] + root[j]) *
                                                      clamped_inverse(lambda[i] - lambda[j], K);
  }
};

class ZcaSpectral : public RegularizedMethod {
 public:
  ZcaSpectral(double eps, double K) : RegularizedMethod(eps), K_(K) {}

 private:
  std::unique_ptr<Factor> decompose(const Matrix& sigma, const Vector& gamma,
                                    double eps) const override {
    auto f = std::make_unique<SpectralFactor>();
    f->conditioned = add_to_diagonal(sigma, eps);
    auto [lambda, U] = linalg::eigh(f->conditioned);
    f->root = inverse_roots(lambda, eps, *f);
    Vector scaled(f->root);
    for (size_t k = 0; k < scaled.size(); ++k) scaled[k] *= gamma[k];
    f->T = spectral_function(U, scaled);
    f->lambda = std::move(lambda);
    f->U = std::move(U);
    f->gamma = gamma;
    f->K = K_;
    return f;
  }

  double K_;
};

}  // namespace

MethodInfo zca_spectral_method() {
  MethodInfo info = {
      "ZCA_spectral",
      "U Λ^(−1/2) Γ Uᵀ",
      "ZCA with the learned scale on the principal axes",
      "slightly worse than ZCA; no figures given",
      {eps_parameter(), clamp_parameter()},
      [](const Arguments& a) { return std::make_unique<ZcaSpectral>(a["eps"], a["K"]); }};
  info.scale_inside = true;
  return info;
}

}  // namespace orthobatch::core
