// LDL(ε): T = D^(−1/2) L^(−1) with Σ+εI = L D Lᵀ, the inverse of the Cholesky factor.
// Blanchette & Laganière, Algorithms 1 and 2.

#include <cmath>

#include "core/ldl.h"
#include "core/linalg.h"
#include "core/registry.h"
#include "core/spectrum.h"

namespace orthobatch::core {
namespace {

struct LdlFactor : Factor {
  LdlDecomposition ldl;
  std::vector<bool> has_gradient;
  Gradient gradient = Gradient::exact;

  Matrix pullback(const Matrix& dT) const override {
    return pullback_ldl(ldl, T, dT, ldl.d, has_gradient, gradient);
  }

  std::vector<int64_t> branch() const override { return {ldl.null.begin(), ldl.null.end()}; }
};

class Ldl : public RegularizedMethod {
 public:
  Ldl(double eps, Gradient gradient) : RegularizedMethod(eps), gradient_(gradient) {}

 private:
  std::unique_ptr<Factor> decompose(const Matrix& sigma, const Vector&, double eps) const override {
    auto f = std::make_unique<LdlFactor>();
    f->conditioned = add_to_diagonal(sigma, eps);
    f->ldl = ldl(f->conditioned, Pivoting::none, eps);
    Vector root(f->ldl.d.size());  // d^(−1/2), 0 for a null pivot
    for (size_t k = 0; k < root.size(); ++k) {
      f->has_gradient.push_back(!f->ldl.null[k]);
      f->null += f->ldl.null[k];
      f->empty += is_empty(f->ldl.d[k], eps);
      if (!f->ldl.null[k]) root[k] = 1.0 / std::sqrt(f->ldl.d[k]);
    }
    f->T = scale_rows(root, f->ldl.L_inverse);
    f->gradient = gradient_;
    return f;
  }

  Gradient gradient_;
};

}  // namespace

MethodInfo ldl_method() {
  MethodInfo info = {
      "LDL",
      "D^(−1/2) L^(−1), Σ+εI = L D Lᵀ",
      "Cholesky whitening: channel k is cleared of channels 1…k−1",
      "MNIST 0.38 % (epoch 43); SVHN 6.81 % with (0), 7.00 % with (1e-5)",
      {eps_parameter()},
      [](const Arguments& a) { return std::make_unique<Ldl>(a["eps"], a.gradient); }};
  info.has_paper_gradient = true;
  return info;
}

}  // namespace orthobatch::core
