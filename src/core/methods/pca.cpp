// PCA(ε,K): T = Λ^(−1/2) Uᵀ, each column of U with its sign such that diag(U) > 0; where that entry
// is rounding noise (a dead channel), such that the column's largest entry is positive.
// Kessy, Lewin & Strimmer 2018 for the sign; the gradient is truly singular at equal eigenvalues.

#include <cmath>

#include "core/linalg.h"
#include "core/registry.h"
#include "core/spectrum.h"

namespace orthobatch::core {
namespace {

struct PcaFactor : Factor {
  Matrix U;
  Vector lambda;
  Vector root;  // λ^(−1/2), 0 for a null direction
  double K = 0;

  // With Ĝ = ∇T U and dU = U Ω, Ωjk = (Uᵀ dΣ U)jk Fjk, Fjk = 1/(λk−λj):
  //   (Uᵀ ∇Σ U)kk = −½ Ĝkk λk^(−3/2),   (Uᵀ ∇Σ U)jk = Ĝkj λk^(−1/2) Fjk   (j ≠ k)
  Matrix pullback(const Matrix& dT) const override {
    const Matrix G = linalg::matmul(dT, U);
    const int64_t n = G.rows();
    Matrix inner(n);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < n; ++k)
        inner(j, k) = j == k ? -0.5 * G(k, k) * root[k] * root[k] * root[k]
                             : G(k, j) * root[k] * clamped_inverse(lambda[k] - lambda[j], K);
    return linalg::symmetric_matmul(U, linalg::matmul_nt(sym(inner), U));
  }

  std::vector<std::string> kinks() const override {
    std::vector<std::string> out;
    for (size_t k = 0; k < lambda.size(); ++k) {
      if (root[k] == 0) continue;
      const std::string name = std::to_string(k + 1);
      if (k + 1 < lambda.size() && lambda[k] - lambda[k + 1] <= kink_tolerance * lambda[0])
        out.push_back("eigenvalues " + name + " and " + std::to_string(k + 2) + " coincide");
      if (std::abs(U(k, k)) <= kink_tolerance)
        out.push_back("the sign of principal axis " + name + " is undetermined");
    }
    return out;
  }
};

/// ±1 for column k of U.
double sign_of(const Matrix& U, int64_t k) {
  int64_t decides = k;
  if (std::abs(U(k, k)) <= kink_tolerance)
    for (int64_t i = 0; i < U.rows(); ++i)
      if (std::abs(U(i, k)) > std::abs(U(decides, k)) + kink_tolerance) decides = i;
  return U(decides, k) < 0 ? -1.0 : 1.0;
}

class Pca : public RegularizedMethod {
 public:
  Pca(double eps, double K) : RegularizedMethod(eps), K_(K) {}

 private:
  std::unique_ptr<Factor> decompose(const Matrix& sigma, const Vector&, double eps) const override {
    auto f = std::make_unique<PcaFactor>();
    f->conditioned = add_to_diagonal(sigma, eps);
    auto [lambda, U] = linalg::eigh(f->conditioned);
    Vector sign(lambda.size());
    for (size_t k = 0; k < sign.size(); ++k) sign[k] = sign_of(U, static_cast<int64_t>(k));
    f->root = inverse_roots(lambda, eps, *f);
    f->U = scale_cols(std::move(U), sign);
    f->T = scale_rows(f->root, transpose(f->U));
    f->lambda = std::move(lambda);
    f->K = K_;
    return f;
  }

  double K_;
};

}  // namespace

MethodInfo pca_method() {
  return {"PCA",
          "Λ^(−1/2) Uᵀ, diag(U) > 0",
          "whitening along the principal axes, largest first",
          "SVHN: learned extremely slowly, then stalled",
          {eps_parameter(), clamp_parameter()},
          [](const Arguments& a) { return std::make_unique<Pca>(a["eps"], a["K"]); }};
}

}  // namespace orthobatch::core
