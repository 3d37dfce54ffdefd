// BN(ε): T = (σ² + ε)^(−1/2), each channel alone. Ioffe & Szegedy 2015.

#include <cmath>

#include "core/registry.h"

namespace orthobatch::core {
namespace {

struct BnFactor : Factor {
  double t = 0;  // (σ²+ε)^(−1/2)

  Matrix pullback(const Matrix& dT) const override {
    Matrix dsigma(1);
    dsigma(0, 0) = -0.5 * dT(0, 0) * t * t * t;
    return dsigma;
  }
};

// Whitens 1×1 blocks: the layer never forms Σ for it. The running variance is kept without ε, as
// torch does, so evaluation is the same formula.
class Bn : public Method {
 public:
  explicit Bn(double eps) : eps_(eps) {}

  std::unique_ptr<Factor> factor(const Matrix& sigma, const Vector&) const override {
    auto f = std::make_unique<BnFactor>();
    const double v = sigma(0, 0) + eps_;
    f->null = v <= 0 ? 1 : 0;
    f->t = f->null ? 0.0 : 1.0 / std::sqrt(v);
    f->T = Matrix::diagonal({f->t});
    f->conditioned = sigma;
    return f;
  }

 private:
  double eps_;
};

}  // namespace

MethodInfo bn_method() {
  MethodInfo info = {"BN",
                     "diag(σ²+ε)^(−1/2)",
                     "batch normalization: unit variances, correlations untouched",
                     "MNIST 0.39 % (epoch 49); SVHN 6.45 %, ->W 6.63 %, ->W->Gamma 6.41 %",
                     {eps_parameter()},
                     [](const Arguments& a) { return std::make_unique<Bn>(a["eps"]); }};
  info.per_channel = true;
  return info;
}

}  // namespace orthobatch::core
