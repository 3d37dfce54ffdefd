// IterNorm(ε,T): T steps of Newton–Schulz towards Σ^(−1/2), without an eigendecomposition.
// Huang et al. 2019.
//
//   S = Σ+εI,  t = tr S,  A = S/t,  P₀ = I,  P_{k+1} = (3P_k − P_k³ A)/2,  T = P_T/√t

#include <cmath>

#include "core/linalg.h"
#include "core/registry.h"
#include "core/spectrum.h"

namespace orthobatch {
namespace {

using linalg::matmul;
using linalg::matmul_nt;
using linalg::matmul_tn;

double inner_product(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (double x : rowwise_dot(a, b)) sum += x;
  return sum;
}

struct IterNormFactor : Factor {
  Matrix A;
  std::vector<Matrix> P;  // P₀ … P_T
  double trace = 0;

  // Reverse of the iteration: with G = ∇P_{k+1},
  //   ∇P_k = (3G − G(P²A)ᵀ − PᵀG(PA)ᵀ − (P²)ᵀGAᵀ)/2,   ∇A −= (P³)ᵀG/2
  Matrix pullback(const Matrix& dT) const override {
    const int64_t n = dT.rows();
    if (trace <= 0) return Matrix(n);
    const double scale = 1.0 / std::sqrt(trace);
    Matrix G = scale * dT;
    Matrix dA(n);
    for (size_t k = P.size() - 1; k-- > 0;) {
      const Matrix& p = P[k];
      const Matrix p2 = matmul(p, p), pA = matmul(p, A);
      dA -= 0.5 * matmul_tn(matmul(p2, p), G);
      const Matrix cubic = matmul_nt(G, matmul(p, pA)) + matmul_nt(matmul_tn(p, G), pA) +
                           matmul_nt(matmul_tn(p2, G), A);
      G = 1.5 * G - 0.5 * cubic;
    }
    // T = P_T t^(−1/2) and A = S/t both depend on t.
    const double dtrace =
        -0.5 * scale / trace * inner_product(dT, P.back()) - inner_product(dA, A) / trace;
    return add_to_diagonal((1.0 / trace) * dA, dtrace);
  }
};

class IterNorm : public Method {
 public:
  IterNorm(double eps, int64_t steps) : eps_(eps), steps_(steps) {}

  std::unique_ptr<Factor> factor(const Matrix& sigma, const Vector&) const override {
    return iterate(sigma, eps_);
  }
  std::unique_ptr<Factor> factor_average(const Matrix& sigma, const Vector&) const override {
    return iterate(sigma, 0.0);
  }

 private:
  std::unique_ptr<Factor> iterate(const Matrix& sigma, double eps) const {
    auto f = std::make_unique<IterNormFactor>();
    const int64_t n = sigma.rows();
    f->conditioned = add_to_diagonal(sigma, eps);
    for (double s : diag(f->conditioned)) f->trace += s;
    if (f->trace <= 0) {
      f->T = Matrix(n);
      f->null = n;
      return f;
    }
    f->A = (1.0 / f->trace) * f->conditioned;
    f->P.push_back(Matrix::identity(n));
    for (int64_t k = 0; k < steps_; ++k) {
      const Matrix& p = f->P.back();
      f->P.push_back(1.5 * p - 0.5 * matmul(matmul(p, matmul(p, p)), f->A));
    }
    f->T = (1.0 / std::sqrt(f->trace)) * f->P.back();
    return f;
  }

  double eps_;
  int64_t steps_;
};

}  // namespace

MethodInfo iternorm_method() {
  MethodInfo info;
  info.name = "IterNorm";
  info.formula = "P_T/√tr S, P ← (3P − P³S/tr S)/2, S = Σ+εI";
  info.description = "ZCA approached by T Newton–Schulz steps; small eigenvalues last";
  info.paper = "not in the paper";
  Parameter steps;
  steps.name = "T";
  steps.default_value = 5;
  steps.minimum = 1;
  steps.maximum = 100;
  steps.style = Parameter::Style::integer;
  steps.meaning = "Newton–Schulz steps";
  info.parameters = {eps_parameter(), steps};
  info.make = [](const Arguments& a) {
    return std::make_unique<IterNorm>(a["eps"], static_cast<int64_t>(a["T"]));
  };
  return info;
}

}  // namespace orthobatch
