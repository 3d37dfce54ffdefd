// The methods as maps from Σ to T: whiteness, null directions, known answers; and the rotation.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "check/gradient_check.h"
#include "core/cayley.h"
#include "core/entropy.h"
#include "core/ldl.h"
#include "core/linalg.h"
#include "core/registry.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using linalg::matmul;
using linalg::matmul_nt;

double max_abs(const Matrix& a) {
  double out = 0;
  for (int64_t k = 0; k < a.rows() * a.cols(); ++k) out = std::max(out, std::abs(a.data()[k]));
  return out;
}

Matrix random_matrix(int64_t n, uint64_t seed) {
  auto g = test::generator(seed);
  const torch::Tensor t = at::randn({n, n}, g, torch::TensorOptions(torch::kDouble));
  Matrix m(n);
  std::copy_n(t.data_ptr<double>(), n * n, m.data());
  return m;
}

/// A well-conditioned covariance.
Matrix covariance_matrix(int64_t n, uint64_t seed) {
  const Matrix a = random_matrix(n, seed);
  return (1.0 / static_cast<double>(n)) * matmul_nt(a, a) + 0.5 * Matrix::identity(n);
}

Vector ones(int64_t n) { return Vector(n, 1.0); }

TEST(Whiteness, MethodsWithoutEpsilonWhitenExactly) {
  for (const char* text :
       {"ZCA(0)", "ZCA_corr(0)", "LDL(0)", "LDL_corr(0)", "PLDLP(0)", "PLDLP(0,unpermute)",
        "PLDLP(0,complete)", "PCA(0,inf)", "ZCA_spectral(0,inf)", "IterNorm(0,30)"})
    for (const char* rotation : {"", "->W", "->W->Gamma"})
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        BatchOrtho2d layer(BatchOrthoOptions(12, std::string(text) + rotation).affine(false));
        layer->to(torch::kDouble);
        test::randomize_parameters(layer, seed);
        const torch::Tensor z = layer->forward(test::correlated({16, 12, 5, 5}, seed));
        EXPECT_LT(whiteness_error(z), tolerance::whiteness) << text << rotation;
      }
}

TEST(Whiteness, BatchNormLeavesCorrelations) {
  BatchOrtho2d layer(12, "BN(0)");
  layer->to(torch::kDouble);
  const torch::Tensor z = layer->forward(test::correlated({16, 12, 5, 5}, 1));
  const torch::Tensor cov = covariance(z);
  EXPECT_LT((cov.diagonal() - 1).abs().max().item<double>(), tolerance::whiteness);
  EXPECT_GT(whiteness_error(z), 0.1);
}

TEST(Whiteness, GroupsWhitenEachAloneTheLastOneSmaller) {
  BatchOrtho2d layer(10, "ZCA(0,group_size=4)");
  layer->to(torch::kDouble);
  const torch::Tensor cov = covariance(layer->forward(test::correlated({16, 10, 5, 5}, 1)));
  const torch::Tensor error = (cov - torch::eye(10, torch::kDouble)).abs();
  for (auto [first, last] : {std::pair<int, int>{0, 4}, {4, 8}, {8, 10}})
    EXPECT_LT(error.slice(0, first, last).slice(1, first, last).max().item<double>(),
              tolerance::whiteness);
  EXPECT_GT(error.slice(0, 0, 4).slice(1, 4, 10).max().item<double>(), 0.05);
}

TEST(Zca, GroupsOfOneChannelAreBatchNorm) {
  const torch::Tensor x = test::correlated({8, 5, 4, 4}, 2);
  BatchOrtho2d bn(5, "BN"), zca(5, "ZCA(1e-5,group_size=1)");
  bn->to(torch::kDouble);
  zca->to(torch::kDouble);
  EXPECT_LT(test::relative_error(zca->forward(x), bn->forward(x)), 1e-13);
}

TEST(Zca, TransformIsTheSymmetricInverseRoot) {
  const Matrix sigma = covariance_matrix(9, 1);
  const auto f = make_method("ZCA(0)")->factor(sigma, ones(9));
  EXPECT_LT(max_abs(f->T - transpose(f->T)), 1e-14);
  EXPECT_LT(max_abs(matmul(f->T, matmul(sigma, f->T)) - Matrix::identity(9)), 1e-12);
}

TEST(Zcam, HoldsTheConditionNumber) {
  const Matrix sigma = Matrix::diagonal({100, 10, 1, 0.1});
  const auto f = make_method("ZCAM(0,c=1/10)")->factor(sigma, ones(4));
  EXPECT_EQ(f->floored, 2);
  EXPECT_LT(max_abs(f->conditioned - Matrix::diagonal({100, 10, 10, 10})), 1e-12);
  EXPECT_LT(max_abs(f->T - Matrix::diagonal({0.1, std::sqrt(0.1), std::sqrt(0.1), std::sqrt(0.1)})),
            1e-13);
}

TEST(Zcae, FloorsAtTheEffectiveRank) {
  // p = (½, ¼, ⅛, ⅛): H = 1.75 ln 2, exp H = 3.36, r = 3; q = ∞: exp H = 2; q = 0: 4.
  const Matrix sigma = Matrix::diagonal({4, 2, 1.0, 0.9999999});
  EXPECT_NEAR(effective_rank(Vector{4, 2, 1, 1}, 1), std::pow(2.0, 1.75), 1e-12);
  const auto smallest = [&](const std::string& spec) {
    return make_method(spec)->factor(sigma, ones(4))->conditioned(3, 3);
  };
  EXPECT_NEAR(smallest("ZCAE(0)"), 1.0, 1e-12);
  EXPECT_NEAR(smallest("ZCAE(0,q=inf)"), 2.0, 1e-12);
  EXPECT_NEAR(smallest("ZCAE(0,q=0)"), 0.9999999, 1e-12);
}

TEST(Entropy, KnownValuesAndOrder) {
  EXPECT_NEAR(effective_rank(Vector(7, 3.0), 1), 7, 1e-12);
  EXPECT_NEAR(effective_rank(Vector(7, 3.0), 2), 7, 1e-12);
  EXPECT_NEAR(effective_rank(Vector{5, 0, 0}, 1), 1, 1e-15);
  EXPECT_NEAR(effective_rank(Vector{1, 1, 0}, 0), 2, 1e-12);
  EXPECT_EQ(effective_rank(Vector{0, 0}, 1), 1);
  const Vector lambda = {3, 1, 0.5, 0.1};  // Rényi entropies fall with their order
  double previous = 5;
  for (double q : {0.0, 0.5, 1.0, 2.0, 10.0}) {
    EXPECT_LT(effective_rank(lambda, q), previous);
    previous = effective_rank(lambda, q);
  }
}

TEST(Ldl, IsTheInverseOfTheCholeskyFactor) {
  const Matrix sigma = covariance_matrix(8, 3);
  const auto f = make_method("LDL(0)")->factor(sigma, ones(8));
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = i + 1; j < 8; ++j) EXPECT_EQ(f->T(i, j), 0.0);
  EXPECT_LT(max_abs(matmul(f->T, matmul_nt(sigma, f->T)) - Matrix::identity(8)), 1e-12);
}

// The paper's Algorithm 2, written out from its lines.
Matrix printed_ldl_gradient(const Matrix& sigma, double eps, const Matrix& dA) {
  const int64_t n = sigma.rows();
  const LdlDecomposition f = ldl(sigma + eps * Matrix::identity(n), Pivoting::none, eps);
  Vector root(n), inverse(n);
  for (int64_t k = 0; k < n; ++k) {
    root[k] = 1 / std::sqrt(f.d[k]);
    inverse[k] = 1 / f.d[k];
  }
  const Matrix A = scale_rows(root, f.L_inverse);
  const Matrix dD = -0.5 * Matrix::diagonal(diag(scale_rows(inverse, matmul_nt(A, dA))));
  const Matrix dL = -1.0 * strictly_lower(matmul_nt(matmul(transpose(A), dA), f.L_inverse));
  const Matrix inner = dD + strictly_lower(scale_rows(inverse, matmul_nt(dL, f.L)));
  return sym(matmul(matmul(transpose(f.L_inverse), inner), f.L_inverse));
}

TEST(Ldl, PaperGradientIsAlgorithm2AsPrintedAndIsOff) {
  double sum = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Matrix sigma = covariance_matrix(8, seed), dT = random_matrix(8, seed + 50);
    const auto gradient = [&](const char* spec) {
      return sym(make_method(spec)->factor(sigma, ones(8))->pullback(dT));
    };
    const Matrix exact = gradient("LDL(1e-5)"), paper = gradient("LDL(1e-5,gradient=paper)");
    EXPECT_LT(max_abs(paper - printed_ldl_gradient(sigma, 1e-5, dT)), 1e-12 * max_abs(paper));
    double off = 0, size = 0;
    for (double x : rowwise_dot(paper - exact, paper - exact)) off += x;
    for (double x : rowwise_dot(exact, exact)) size += x;
    sum += std::sqrt(off / size);
  }
  EXPECT_NEAR(sum / 20, 0.6, 0.25) << "mean relative error of the printed gradient of Σ";
}

extern "C" void dsytrf_(const char* uplo, const int* n, double* a, const int* lda, int* ipiv,
                        double* work, const int* lwork, int* info);

/// Covariance of channels whose deviations range over two decades: small ones that follow a large
/// one are what Bunch and Kaufman's rule exchanges.
Matrix uneven_covariance(int64_t n, uint64_t seed) {
  const Matrix r = random_matrix(n, 1000 + seed);
  Vector scale;
  for (int64_t k = 0; k < n; ++k) scale.push_back(std::pow(10.0, -std::abs(r(k, 0))));
  return scale_rows(scale, scale_cols(covariance_matrix(n, seed), scale));
}

TEST(Pldlp, PivotsAsLapacksDsytrf) {
  constexpr int n = 8;
  int compared = 0;
  int64_t exchanges = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Matrix sigma = uneven_covariance(n, seed);
    Matrix packed = sigma;  // symmetric: rows may be taken for columns
    int pivots[n], info = 0;
    const int size = n, work_size = 64 * n;
    Vector work(work_size);
    dsytrf_("L", &size, packed.data(), &size, pivots, work.data(), &work_size, &info);
    ASSERT_EQ(info, 0);
    if (*std::min_element(pivots, pivots + n) < 0) continue;  // a 2×2 block: ours has none
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    for (int k = 0; k < n; ++k) std::swap(order[k], order[pivots[k] - 1]);
    const LdlDecomposition f = ldl(sigma, Pivoting::bunch_kaufman, 0.0);
    EXPECT_EQ(f.order, order) << "seed " << seed;
    for (int k = 0; k < n; ++k) EXPECT_NEAR(f.d[k] / packed(k, k), 1, 1e-9);
    ++compared;
    exchanges += f.exchanges;
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(exchanges, 20);
}

TEST(Pldlp, LeavesChannelsOfOneSizeInTheirPlaces) {
  for (uint64_t seed = 1; seed <= 50; ++seed)
    EXPECT_EQ(ldl(covariance_matrix(8, seed), Pivoting::bunch_kaufman, 0.0).exchanges, 0);
}

TEST(Pldlp, HasItsGradientAcrossAnExchange) {
  int exchanged = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const char* spec : {"PLDLP(1e-4)", "PLDLP(1e-4,unpermute)"}) {
      const Matrix sigma = uneven_covariance(6, seed), G = random_matrix(6, 50 + seed);
      const auto method = make_method(spec);
      const auto f = method->factor(sigma, ones(6));
      if (f->exchanges == 0) continue;
      ++exchanged;
      const Matrix direction = scale_rows(diag(sigma), sym(random_matrix(6, 90 + seed)));
      const Matrix D = sym(direction);
      const auto value = [&](double h) {
        const Matrix T = method->factor(sigma + h * D, ones(6))->T;
        return std::inner_product(T.data(), T.data() + 36, G.data(), 0.0);
      };
      const double h = 1e-5,
                   slope = (8 * (value(h) - value(-h)) - value(2 * h) + value(-2 * h)) / (12 * h);
      const Matrix dsigma = sym(f->pullback(G));
      const double exact = std::inner_product(D.data(), D.data() + 36, dsigma.data(), 0.0);
      EXPECT_NEAR(exact / slope, 1, 1e-6) << spec << ", seed " << seed;
    }
  EXPECT_GT(exchanged, 5);
}

TEST(Pldlp, NamesAPivotAtTheThresholdOfAnExchange) {
  const double alpha = (1 + std::sqrt(17.0)) / 8, l = 0.3;
  Matrix sigma = Matrix::identity(2);
  sigma(0, 1) = sigma(1, 0) = l;
  sigma(0, 0) = alpha * l;
  const auto kinks = [&] { return make_method("PLDLP(1e-5)")->factor(sigma, ones(2))->kinks(); };
  ASSERT_EQ(kinks().size(), 1u);
  EXPECT_NE(kinks()[0].find("threshold of an exchange"), std::string::npos);
  sigma(0, 0) = 1.01 * alpha * l;
  EXPECT_TRUE(kinks().empty());
}

TEST(Pldlp, PivotsLargestFirstWithBoundedL) {
  const Matrix sigma = covariance_matrix(8, 4);
  const LdlDecomposition f = ldl(sigma, Pivoting::largest_diagonal, 0.0);
  for (size_t k = 0; k + 1 < f.d.size(); ++k) EXPECT_GE(f.d[k], f.d[k + 1]);
  EXPECT_LE(max_abs(f.L), 1.0);
  const Matrix permuted = take_rows(take_cols(sigma, f.order), f.order);
  EXPECT_LT(max_abs(matmul_nt(scale_cols(f.L, f.d), f.L) - permuted), 1e-13);
}

TEST(Pca, OutputsAreTheComponentsInOrder) {
  const Matrix sigma = covariance_matrix(6, 5);
  const auto f = make_method("PCA(0,inf)")->factor(sigma, ones(6));
  const auto [lambda, U] = linalg::eigh(sigma);
  for (int64_t k = 0; k < 6; ++k) {
    EXPECT_GT(f->T(k, k), 0);
    double norm = 0;
    for (int64_t j = 0; j < 6; ++j) norm += f->T(k, j) * f->T(k, j);
    EXPECT_NEAR(norm, 1 / lambda[k], 1e-12);
  }
}

TEST(ZcaSpectral, ReplacesTheSpectrumByGammaSquared) {
  BatchOrtho1d layer(5, "ZCA_spectral(0,inf)");
  layer->to(torch::kDouble);
  test::randomize_parameters(layer, 3);
  const torch::Tensor z = layer->forward(test::correlated({300, 5}, 6));
  const torch::Tensor spectrum = torch::linalg_eigvalsh(covariance(z));
  const torch::Tensor expected = std::get<0>(layer->weight.detach().square().sort());
  EXPECT_LT((spectrum - expected).abs().max().item<double>(), 1e-11);
}

TEST(IterNorm, ApproachesZcaStepByStep) {
  const Matrix sigma = covariance_matrix(8, 6);
  const Matrix zca = make_method("ZCA(1e-5)")->factor(sigma, ones(8))->T;
  double previous = 1e9;
  for (int steps : {1, 3, 5, 7, 9, 15}) {
    const std::string spec = "IterNorm(1e-5," + std::to_string(steps) + ")";
    const double error = max_abs(make_method(spec)->factor(sigma, ones(8))->T - zca);
    EXPECT_LT(error, previous + 1e-14) << steps;
    previous = error;
  }
  EXPECT_LT(previous, 1e-10);
}

TEST(Correlation, IsBatchNormThenTheMethod) {
  const torch::Tensor x = test::correlated({200, 7}, 7);
  for (const char* inner : {"ZCA", "ZCAM", "LDL"}) {
    const auto plain = [](int64_t n, const std::string& spec) {
      BatchOrtho1d layer(BatchOrthoOptions(n, spec).affine(false));
      layer->to(torch::kDouble);
      return layer;
    };
    const torch::Tensor direct = plain(7, std::string(inner) + "_corr(1e-3)")->forward(x);
    const torch::Tensor composed =
        plain(7, std::string(inner) + "(1e-3)")->forward(plain(7, "BN")->forward(x));
    EXPECT_LT(test::relative_error(direct, composed), 1e-12) << inner;
  }
}

TEST(NullDirections, AreZeroInTheTransformAndCounted) {
  Matrix sigma = covariance_matrix(4, 8);  // channel 3 a copy of channel 0, then channel 2 constant
  for (int64_t j = 0; j < 4; ++j) sigma(3, j) = sigma(0, j);
  for (int64_t i = 0; i < 4; ++i) sigma(i, 3) = sigma(i, 0);
  for (int64_t j = 0; j < 4; ++j) sigma(2, j) = sigma(j, 2) = 0;
  for (const MethodInfo& info : registry()) {
    if (info.per_channel || info.name == "IterNorm") continue;
    const LayerSpec spec = LayerSpec(info.name).with("eps", 0);
    const bool floored = info.name == "ZCAM" || info.name == "ZCAE" || info.name == "ZCAM_corr";
    const auto f = make_method(spec)->factor(sigma, ones(4));
    EXPECT_TRUE(all_finite(f->T)) << info.name;
    EXPECT_TRUE(all_finite(f->pullback(random_matrix(4, 9)))) << info.name;
    EXPECT_EQ(f->null, floored ? 0 : 2) << info.name;
    if (!floored) {
      EXPECT_LT(max_abs(f->T), 1e3) << info.name;
    }
  }
}

TEST(NullDirections, ZeroCovarianceIsAllNull) {
  for (const MethodInfo& info : registry()) {
    const int64_t n = info.per_channel ? 1 : 3;
    const auto f = make_method(LayerSpec(info.name).with("eps", 0))->factor(Matrix(n), ones(n));
    EXPECT_TRUE(all_finite(f->T)) << info.name;
    EXPECT_TRUE(all_finite(f->pullback(random_matrix(n, 1)))) << info.name;
    EXPECT_EQ(max_abs(f->T), 0) << info.name;
    EXPECT_EQ(f->null, n) << info.name;
  }
}

TEST(Conditioning, ConditionNumberUpTo1e12StaysFiniteAndWhite) {
  CheckOptions o;
  o.channels = 6;
  o.samples = 400;
  torch::Tensor x = data_with_spectrum(o) - 1.0;
  const torch::Tensor scale =
      torch::logspace(0, -6, 6, 10.0, torch::kDouble);  // variances to 1e-12
  x = x * scale;
  for (const char* spec : {"ZCA(0)", "LDL(0)", "PLDLP(0)", "PCA(0,inf)", "ZCA_corr(0)"}) {
    BatchOrtho1d layer(6, spec);
    layer->to(torch::kDouble);
    torch::Tensor input = x.clone().requires_grad_();
    const torch::Tensor z = layer->forward(input);
    (z * torch::randn_like(z)).sum().backward();
    EXPECT_EQ(layer->last_batch().null, 0) << spec;
    EXPECT_LT(whiteness_error(z), 1e-3) << spec;  // 1e12 · machine epsilon and a margin
    EXPECT_TRUE(test::is_finite(input.grad())) << spec;
  }
}

TEST(Cayley, IsOrthogonalToRounding) {
  for (int64_t n : {1, 2, 5, 32, 128}) {
    Vector skew(skew_size(n));
    const torch::Tensor t = torch::randn({static_cast<int64_t>(skew.size())}, torch::kDouble);
    std::copy_n(t.data_ptr<double>(), skew.size(), skew.begin());
    const Matrix W = cayley(skew, n);
    const double bound = 10.0 * static_cast<double>(n) * std::numeric_limits<double>::epsilon();
    EXPECT_LE(max_abs(matmul_nt(W, W) - Matrix::identity(n)), bound) << n;
  }
}

TEST(Cayley, StartsAtTheIdentity) {
  EXPECT_EQ(max_abs(cayley(Vector(skew_size(7)), 7) - Matrix::identity(7)), 0.0);
}

}  // namespace
}  // namespace orthobatch
