// A second implementation of every layer, composed of torch operations with autograd: what one
// would write by hand. It is right where eigenvalues are well separated.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "check/gradient_check.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;

Tensor identity(const Tensor& like) {
  return torch::eye(like.size(0), like.options().requires_grad(false));
}

Tensor eigen_transform(const Tensor& sigma, const LayerSpec& spec, const Tensor& gamma) {
  auto [ascending, vectors] = torch::linalg_eigh(sigma + spec.value("eps") * identity(sigma));
  const Tensor lambda = ascending.flip(0), U = vectors.flip(1);
  if (spec.method() == "PCA") {
    const Tensor sign = U.detach().diagonal().sign();
    return lambda.rsqrt().unsqueeze(1) * (U * sign).t();
  }
  Tensor floored = lambda;
  if (spec.method() == "ZCAM") floored = torch::maximum(lambda, spec.value("c") * lambda[0]);
  if (spec.method() == "ZCAE") {
    const Tensor p = (lambda / lambda.sum()).detach();
    const double q = spec.value("q");
    const double entropy = q == 1          ? -(p * p.log()).sum().item<double>()
                           : std::isinf(q) ? -std::log(p.max().item<double>())
                                           : std::log(p.pow(q).sum().item<double>()) / (1 - q);
    const auto r = static_cast<int64_t>(std::lround(std::exp(entropy)));
    floored = torch::maximum(lambda, lambda[r - 1]);
  }
  Tensor f = floored.rsqrt();
  if (spec.method() == "ZCA_spectral" && gamma.defined()) f = f * gamma;
  return torch::mm(U * f, U.t());
}

Tensor cholesky_transform(const Tensor& sigma, double eps) {
  const Tensor C = torch::linalg_cholesky(sigma + eps * identity(sigma));
  return torch::linalg_inv(C);
}

/// The place in `left` of the next pivot: of the largest diagonal, or by Bunch and Kaufman's rule.
int64_t next_pivot(const Tensor& schur, const std::vector<int64_t>& left, bool complete) {
  const Tensor rest = torch::tensor(left);
  const Tensor a = schur.index_select(0, rest).index_select(1, rest);
  if (complete) return a.diagonal().argmax().item<int64_t>();
  const Tensor off = (a - a.diagonal().diag()).abs();
  const double alpha = (1 + std::sqrt(17.0)) / 8, l = off.select(1, 0).max().item<double>();
  const int64_t r = off.select(1, 0).argmax().item<int64_t>();
  const double pivot = a[0][0].item<double>(), s = off.select(1, r).max().item<double>();
  return pivot >= alpha * l || pivot * s >= alpha * l * l ? 0 : r;
}

Tensor pivoted_transform(const Tensor& sigma, double eps, bool unpermute, bool complete) {
  // Pivots on a plain copy, then an ordinary Cholesky in that order.
  Tensor schur = sigma.detach().clone();
  std::vector<int64_t> order, left(sigma.size(0));
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    std::swap(left[0], left[next_pivot(schur, left, complete)]);
    const int64_t best = left[0];
    order.push_back(best);
    left.erase(left.begin());
    schur = schur - torch::outer(schur.select(1, best), schur.select(0, best)) / schur[best][best];
  }
  const Tensor P = identity(sigma).index_select(0, torch::tensor(order));
  const Tensor C = torch::linalg_cholesky(torch::mm(P, torch::mm(sigma, P.t())));
  const Tensor d = C.diagonal().square();
  const Tensor L = C / C.diagonal();
  const Tensor A =
      torch::maximum(d, torch::full_like(d, eps)).rsqrt().unsqueeze(1) * torch::linalg_inv(L);
  return unpermute ? torch::mm(P.t(), torch::mm(A, P)) : torch::mm(A, P);
}

Tensor newton_schulz(const Tensor& sigma, double eps, int64_t steps) {
  const Tensor S = sigma + eps * identity(sigma), A = S / S.trace();
  Tensor P = identity(sigma);
  for (int64_t k = 0; k < steps; ++k) P = 1.5 * P - 0.5 * torch::matrix_power(P, 3).mm(A);
  return P / S.trace().sqrt();
}

Tensor transform(const Tensor& sigma, const LayerSpec& spec, const Tensor& gamma) {
  const std::string& m = spec.method();
  if (m == "BN") return (sigma.diagonal() + spec.value("eps")).rsqrt().diag();
  if (m == "LDL") return cholesky_transform(sigma, spec.value("eps"));
  if (m == "PLDLP")
    return pivoted_transform(sigma, spec.value("eps"), spec.value("unpermute") != 0,
                             spec.value("complete") != 0);
  if (m == "IterNorm")
    return newton_schulz(sigma, spec.value("eps"), static_cast<int64_t>(spec.value("T")));
  return eigen_transform(sigma, spec, gamma);
}

Tensor whitening(const Tensor& sigma, const LayerSpec& spec, const Tensor& gamma) {
  const std::string& m = spec.method();
  const size_t suffix = m.find("_corr");
  if (suffix == std::string::npos) return transform(sigma, spec, gamma);
  LayerSpec inner = m.substr(0, suffix);
  const std::map<std::string, double> names = inner.values();
  for (const auto& item : names) inner = inner.with(item.first, spec.value(item.first));
  const Tensor scale = (sigma.diagonal() + spec.value("eps_bn")).rsqrt();
  const Tensor Phi = scale.unsqueeze(1) * sigma * scale;
  return transform(Phi, inner, gamma) * scale;
}

/// The whole layer on (M, N) data.
Tensor reference(const Tensor& x, const LayerSpec& spec, const Tensor& gamma, const Tensor& bias,
                 const Tensor& skew) {
  const int64_t n = x.size(1), g = spec.group_size() > 0 ? spec.group_size() : n;
  const Tensor centered = x - x.mean(0, true);
  const Tensor sigma = centered.t().mm(centered) / x.size(0);
  const bool inside = spec.method() == "ZCA_spectral" && !spec.has_rotation();
  std::vector<Tensor> blocks;
  for (int64_t first = 0; first < n; first += g) {
    const int64_t last = std::min(first + g, n);
    blocks.push_back(whitening(sigma.slice(0, first, last).slice(1, first, last), spec,
                               inside ? gamma.slice(0, first, last) : Tensor()));
  }
  Tensor P = torch::block_diag(blocks);
  if (spec.has_rotation()) {
    const Tensor lower = torch::tril_indices(n, n, -1);
    Tensor S = torch::zeros({n, n}, x.options().requires_grad(false))
                   .index_put({lower[0], lower[1]}, skew);
    S = S - S.t();
    P = torch::mm(torch::mm(identity(S) + S, torch::linalg_inv(identity(S) - S)), P);
  }
  if (gamma.defined() && !inside) P = gamma.unsqueeze(1) * P;
  return torch::mm(centered, P.t()) + bias;
}

class Reference : public testing::TestWithParam<std::string> {};

TEST_P(Reference, OutputAndEveryGradientAgree) {
  const LayerSpec spec = GetParam();
  CheckOptions o;
  o.channels = 10;
  o.samples = 200;
  for (uint64_t seed : {1, 2, 3}) {
    o.seed = seed;
    BatchOrtho1d layer(o.channels, spec);
    layer->to(torch::kDouble);
    test::randomize_parameters(layer, seed);
    const Tensor data = data_with_spectrum(o), G = torch::randn_like(data);
    const auto copy = [](const Tensor& t) {
      return t.defined() ? t.detach().clone().requires_grad_() : Tensor();
    };

    Tensor x = copy(data);
    const Tensor z = layer->forward(x);
    (z * G).sum().backward();

    Tensor y = copy(data);
    const Tensor gamma = copy(layer->weight), bias = copy(layer->bias), skew = copy(layer->skew);
    const Tensor expected = reference(y, spec, gamma, bias, skew);
    (expected * G).sum().backward();

    EXPECT_LT(test::relative_error(z, expected), tolerance::reference);
    EXPECT_LT(test::relative_error(x.grad(), y.grad()), tolerance::reference);
    if (gamma.defined()) {
      EXPECT_LT(test::relative_error(layer->weight.grad(), gamma.grad()), tolerance::reference);
    }
    EXPECT_LT(test::relative_error(layer->bias.grad(), bias.grad()), tolerance::reference);
    if (skew.defined()) {
      EXPECT_LT(test::relative_error(layer->skew.grad(), skew.grad()), tolerance::reference);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Reference, testing::ValuesIn(test::all_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

// Where the composition fails and the layer does not: white data, every eigenvalue 1.
TEST(Reference, AutogradThroughEighIsLostAtEqualEigenvalues) {
  CheckOptions o;
  o.channels = 10;
  o.samples = 200;
  o.spectrum = Spectrum::equal;
  const Tensor data = data_with_spectrum(o), bias = torch::zeros({10}, torch::kDouble),
               gamma = torch::ones({10}, torch::kDouble), G = test::correlated({200, 10}, 5);
  Tensor x = data.clone().requires_grad_(), y = data.clone().requires_grad_();
  BatchOrtho1d layer(10, "ZCA(1e-5)");
  layer->to(torch::kDouble);
  (layer->forward(x) * G).sum().backward();
  (reference(y, "ZCA(1e-5)", gamma, bias, Tensor()) * G).sum().backward();
  EXPECT_LT(check_gradient("ZCA(1e-5)", o).largest_exact_error(), tolerance::gradient);
  EXPECT_FALSE(test::relative_error(y.grad(), x.grad()) < 0.05);  // NaN or noise
  RecordProperty("autograd_error", std::to_string(test::relative_error(y.grad(), x.grad())));
}

}  // namespace
}  // namespace orthobatch
