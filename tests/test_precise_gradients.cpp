// PCA and ZCA_spectral at eigenvalues 1e-6 apart: their gradient is of order 1/gap there, and
// central differences in double drown in rounding. Here the differences are taken in long double,
// of a second implementation of the layer with a Jacobi eigensolver.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "check/gradient_check.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using Precise = long double;
using Grid = std::vector<std::vector<Precise>>;

Grid zeros(size_t rows, size_t cols) { return Grid(rows, std::vector<Precise>(cols, 0)); }

struct Eigen {
  std::vector<Precise> lambda;  // descending
  Grid U;                       // eigenvectors in columns
};

// Cyclic Jacobi rotations.
Eigen eigen(Grid a) {
  const size_t n = a.size();
  Grid U = zeros(n, n);
  for (size_t i = 0; i < n; ++i) U[i][i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep)
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p][q] == 0) continue;
        const Precise theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const Precise t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const Precise c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (size_t k = 0; k < n; ++k) {
          const Precise x = a[k][p], y = a[k][q];
          a[k][p] = c * x - s * y;
          a[k][q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const Precise x = a[p][k], y = a[q][k];
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const Precise x = U[k][p], y = U[k][q];
          U[k][p] = c * x - s * y;
          U[k][q] = s * x + c * y;
        }
      }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return a[i][i] > a[j][j]; });
  Eigen out{{}, zeros(n, n)};
  for (size_t k = 0; k < n; ++k) {
    out.lambda.push_back(a[order[k]][order[k]]);
    for (size_t i = 0; i < n; ++i) out.U[i][k] = U[i][order[k]];
  }
  return out;
}

/// ⟨G, Z⟩ of PCA or ZCA_spectral with scale γ, all in long double.
Precise loss(const Grid& x, const Grid& G, const std::vector<Precise>& gamma, Precise eps,
             bool pca) {
  const size_t m = x.size(), n = x[0].size();
  std::vector<Precise> mean(n, 0);
  for (const auto& row : x)
    for (size_t c = 0; c < n; ++c) mean[c] += row[c] / m;
  Grid sigma = zeros(n, n);
  for (const auto& row : x)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) sigma[i][j] += (row[i] - mean[i]) * (row[j] - mean[j]) / m;
  for (size_t i = 0; i < n; ++i) sigma[i][i] += eps;
  const Eigen e = eigen(sigma);
  Precise total = 0;
  for (size_t s = 0; s < m; ++s) {
    for (size_t k = 0; k < n; ++k) {
      Precise along = 0, back = 0;  // uₖᵀ (x−μ), uₖᵀ g
      for (size_t c = 0; c < n; ++c) {
        along += e.U[c][k] * (x[s][c] - mean[c]);
        back += e.U[c][k] * G[s][c];
      }
      const Precise y = along / std::sqrt(e.lambda[k]);
      if (pca)
        total += G[s][k] * gamma[k] * y * (e.U[k][k] < 0 ? -1 : 1);
      else
        total += gamma[k] * y * back;
    }
  }
  return total;
}

Grid to_grid(const torch::Tensor& t) {
  Grid out = zeros(t.size(0), t.size(1));
  for (int64_t i = 0; i < t.size(0); ++i)
    for (int64_t j = 0; j < t.size(1); ++j) out[i][j] = t[i][j].item<double>();
  return out;
}

class NearEqual : public testing::TestWithParam<std::string> {};

TEST_P(NearEqual, ExactGradientAgreesWithDifferencesInLongDouble) {
  const LayerSpec spec = GetParam();
  CheckOptions o;
  o.channels = 6;
  o.samples = 18;
  o.spectrum = Spectrum::close;
  o.gap = 1e-6;
  BatchOrtho1d layer(o.channels, spec);
  layer->to(torch::kDouble);
  test::randomize_parameters(layer, 4);
  torch::Tensor x = data_with_spectrum(o).requires_grad_();
  const torch::Tensor G = test::correlated({o.samples, o.channels}, 3);
  (layer->forward(x) * G).sum().backward();

  Grid data = to_grid(x.detach());
  const Grid weights = to_grid(G);
  std::vector<Precise> gamma;
  for (int64_t c = 0; c < o.channels; ++c) gamma.push_back(layer->weight[c].item<double>());
  constexpr Precise h = 1e-7L;  // a tenth of the gap
  const Precise w[] = {0, 4.0L / 5, -1.0L / 5, 4.0L / 105, -1.0L / 280};
  torch::Tensor expected = torch::zeros_like(x).detach();
  for (size_t i = 0; i < data.size(); ++i)
    for (size_t c = 0; c < data[0].size(); ++c) {
      const Precise at = data[i][c];
      Precise slope = 0;
      for (int k = 1; k <= 4; ++k)
        for (int sign : {1, -1}) {
          data[i][c] = at + sign * k * h;
          slope += sign * w[k] *
                   loss(data, weights, gamma, spec.value("eps"), spec.method() == "PCA") / h;
        }
      data[i][c] = at;
      expected[i][c] = static_cast<double>(slope);
    }
  const double error = test::relative_error(x.grad(), expected);
  EXPECT_LT(error, tolerance::gradient);
  std::cout << GetParam() << ": relative error " << error << "\n";
}

INSTANTIATE_TEST_SUITE_P(Specs, NearEqual,
                         testing::Values("PCA(1e-5,1e12)", "PCA(0,inf)", "ZCA_spectral(1e-5,1e12)",
                                         "ZCA_spectral(0,inf)"),
                         [](const auto& info) { return test::test_name(info.param); });

TEST(Clamp, KBoundsTheGradientAtNearlyEqualEigenvalues) {
  CheckOptions o;
  o.channels = 4;
  o.samples = 40;
  o.spectrum = Spectrum::close;
  o.gap = 1e-10;
  for (const char* method : {"PCA", "ZCA_spectral"}) {
    const auto gradient_norm = [&](double K) {
      BatchOrtho1d layer(o.channels, LayerSpec(method).with("K", K));
      layer->to(torch::kDouble);
      test::randomize_parameters(layer, 4);
      torch::Tensor x = data_with_spectrum(o).requires_grad_();
      const torch::Tensor z = layer->forward(x);
      (z * test::correlated(z.sizes(), 3)).sum().backward();
      return x.grad().norm().item<double>();
    };
    EXPECT_GT(gradient_norm(1e12), 1e6) << method;
    EXPECT_LT(gradient_norm(10), 1e4) << method;
  }
}

}  // namespace
}  // namespace orthobatch
