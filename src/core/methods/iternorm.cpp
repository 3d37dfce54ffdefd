// IterNorm(ε,T): T steps of Newton–Schulz towards Σ^(−1/2), without an eigendecomposition.
// Huang et al. 2019.
//
//   S = Σ+εI,  t = tr S,  A = S/t,  P₀ = I,  P_{k+1} = (3P_k − P_k³ A)/2,  T = P_T/√t
//
// computed in the coupled form with Y_k = P_k A, which is the same in exact arithmetic: rounding
// grows in the single recursion and does not in this one (Higham, Functions of Matrices,
// section 6.4).

#include <cmath>

#include "core/linalg.h"
#include "core/registry.h"
#include "core/spectrum.h"

namespace orthobatch::core {
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
  std::vector<Matrix> Y, P;  // iterates 0 … T
  double trace = 0;

  // Reverse of the coupled step M = (3I − P Y)/2, Y' = Y M, P' = M P:
  //   ∇M = Yᵀ ∇Y' + ∇P' Pᵀ,  ∇Y = ∇Y' Mᵀ − ½ Pᵀ ∇M,  ∇P = Mᵀ ∇P' − ½ ∇M Yᵀ
  Matrix pullback(const Matrix& dT) const override {
    const int64_t n = dT.rows();
    if (trace <= 0) return Matrix(n);
    const double scale = 1.0 / std::sqrt(trace);
    Matrix dP = scale * dT, dY(n);
    for (size_t k = P.size() - 1; k-- > 0;) {
      const Matrix M = step(P[k], Y[k]);
      const Matrix dM = matmul_tn(Y[k], dY) + matmul_nt(dP, P[k]);
      dY = matmul_nt(dY, M) - 0.5 * matmul_tn(P[k], dM);
      dP = matmul_tn(M, dP) - 0.5 * matmul_nt(dM, Y[k]);
    }
    // Y₀ = A = S/t and T = P_T t^(−1/2) both depend on t.
    const double dtrace =
        -0.5 * scale / trace * inner_product(dT, P.back()) - inner_product(dY, A) / trace;
    return add_to_diagonal((1.0 / trace) * dY, dtrace);
  }

  static Matrix step(const Matrix& P, const Matrix& Y) {
    return add_to_diagonal(-0.5 * matmul(P, Y), 1.5);
  }
};

class IterNorm : public RegularizedMethod {
 public:
  IterNorm(double eps, int64_t steps) : RegularizedMethod(eps), steps_(steps) {}

 private:
  std::unique_ptr<Factor> decompose(const Matrix& sigma, const Vector&, double eps) const override {
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
    f->Y.push_back(f->A);
    for (int64_t k = 0; k < steps_; ++k) {
      const Matrix M = IterNormFactor::step(f->P.back(), f->Y.back());
      f->Y.push_back(matmul(f->Y.back(), M));
      f->P.push_back(matmul(M, f->P.back()));
    }
    f->T = (1.0 / std::sqrt(f->trace)) * f->P.back();
    return f;
  }

  int64_t steps_;
};

}  // namespace

MethodInfo iternorm_method() {
  Parameter steps;
  steps.name = "T";
  steps.default_value = 5;
  steps.minimum = 1;
  steps.maximum = 100;
  steps.style = Parameter::Style::integer;
  steps.meaning = "Newton–Schulz steps";
  return {"IterNorm",
          "P_T/√tr S, P ← (3P − P³S/tr S)/2, S = Σ+εI",
          "ZCA approached by T Newton–Schulz steps; small eigenvalues last",
          "not in the paper",
          {eps_parameter(), steps},
          [](const Arguments& a) {
            return std::make_unique<IterNorm>(a["eps"], static_cast<int64_t>(a["T"]));
          }};
}

}  // namespace orthobatch::core
