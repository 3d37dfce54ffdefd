// The N×N linear algebra: what it decomposes, products, loops on threads, and the gradients of large layers.

#include "core/linalg.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "core/layer.h"
#include "core/parallel.h"
#include "core/small.h"
#include "rooms.h"

namespace orthobatch::core {
namespace plain {
extern const Small of_small;
}
#ifdef ORTHOBATCH_X86
namespace avx2 {
extern const Small of_small;
}
namespace wide {  // the set for AVX-512, compiled for what most machines have
extern const Small of_small;
}
#endif
namespace {

using linalg::matmul;
using linalg::matmul_nt;
using linalg::matmul_tn;

class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

Matrix random_matrix(int64_t rows, int64_t cols, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  Matrix out(rows, cols);
  for (int64_t k = 0; k < rows * cols; ++k) out.data()[k] = normal(generator);
  return out;
}

double largest(const Matrix& a) {
  double out = 0;
  for (int64_t k = 0; k < a.rows() * a.cols(); ++k) out = std::max(out, std::abs(a.data()[k]));
  return out;
}

/// Q diag(lambda) Qᵀ with a Q that is no identity.
Matrix with_spectrum(const Vector& lambda, uint64_t seed) {
  const auto n = static_cast<int64_t>(lambda.size());
  const Matrix a = random_matrix(n, n, seed);
  const Matrix Q = linalg::eigh(sym(a)).U;
  return sym(matmul_nt(scale_cols(Q, lambda), Q));
}

/// Symmetric matrices as they come, and as they should not come.
std::vector<std::pair<std::string, Matrix>> cases(int64_t n) {
  std::vector<std::pair<std::string, Matrix>> out;
  const Matrix x = random_matrix(n, 3 * n, 1), thin = random_matrix(n, n / 3 + 1, 2);
  out.emplace_back("covariance", (1.0 / static_cast<double>(3 * n)) * matmul_nt(x, x));
  out.emplace_back("low rank", matmul_nt(thin, thin));
  out.emplace_back("identity", Matrix::identity(n));
  out.emplace_back("indefinite", sym(random_matrix(n, n, 3)));
  out.emplace_back("large", 1e60 * matmul_nt(x, x));
  out.emplace_back("small", 1e-60 * matmul_nt(x, x));
  Vector spectrum(n);
  for (int64_t k = 0; k < n; ++k) spectrum[k] = std::pow(10.0, -12.0 * k / n);
  out.emplace_back("graded", with_spectrum(spectrum, 4));
  for (int64_t k = 0; k < n; ++k) spectrum[k] = 1 + k % 3;
  out.emplace_back("three eigenvalues", with_spectrum(spectrum, 5));
  for (int64_t k = 0; k < n; ++k) spectrum[k] = 1 + 1e-13 * k;
  out.emplace_back("nearly equal", with_spectrum(spectrum, 6));
  Matrix dead = matmul_nt(x, x);  // channels without variance
  for (int64_t i = 1; i < n; i += 3)
    for (int64_t j = 0; j < n; ++j) dead(i, j) = dead(j, i) = 0;
  out.emplace_back("dead channels", dead);
  return out;
}

class Eigh : public testing::TestWithParam<int64_t> {};

TEST_P(Eigh, DecomposesAndIsOrthogonal) {
  const int64_t n = GetParam();
  for (const auto& [name, a] : cases(n)) {
    const auto [lambda, U] = linalg::eigh(a);
    EXPECT_TRUE(std::is_sorted(lambda.rbegin(), lambda.rend())) << name;
    const double noise = 4 * linalg::null_tolerance(n);
    EXPECT_LT(largest(matmul_tn(U, U) - Matrix::identity(n)), noise) << name;
    const double scale = std::max(std::abs(lambda.front()), std::abs(lambda.back()));
    EXPECT_LT(largest(matmul_nt(scale_cols(U, lambda), U) - a), noise * scale) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Eigh, testing::Values(1, 2, 3, 5, 16, 31, 32, 33, 128, 300),
                         testing::PrintToStringParamName());

TEST(Eigh, RefusesWhatIsNotFinite) {
  for (const int64_t n : {8, 200}) {
    Matrix a = Matrix::identity(n);
    a(n - 1, 0) = a(0, n - 1) = std::nan("");
    // LAPACK says so or hands NaN on; neither may be taken for eigenvalues.
    try {
      EXPECT_FALSE(all_finite(linalg::eigh(a).lambda));
    } catch (const FactorizationError&) {
    }
  }
}

TEST(Small, EverySetDecomposesAndMultiplies) {
  std::vector<std::pair<std::string, const Small*>> sets = {{"plain", &plain::of_small}};
#ifdef ORTHOBATCH_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    sets.emplace_back("avx2", &avx2::of_small);
    sets.emplace_back("wide", &wide::of_small);
  }
#endif
  for (const auto& [set, small] : sets)
    for (const int64_t n : {1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32}) {
      for (const auto& [name, a] : cases(n)) {
        Vector lambda(n);
        Matrix U(n);
        ASSERT_TRUE(small->eigh(n, a.data(), lambda.data(), U.data())) << set << " " << name << n;
        EXPECT_TRUE(std::is_sorted(lambda.rbegin(), lambda.rend())) << set << " " << name << n;
        const double noise = 4 * linalg::null_tolerance(n);
        const double scale = std::max(std::abs(lambda.front()), std::abs(lambda.back()));
        Matrix one(n), again(n);
        small->multiply(n, n, n, U.data(), 1, n, U.data(), n, 1, one.data());  // Uᵀ U
        EXPECT_LT(largest(one - Matrix::identity(n)), noise) << set << " " << name << n;
        const Matrix scaled = scale_cols(U, lambda);
        small->multiply(n, n, n, scaled.data(), n, 1, U.data(), 1, n, again.data());
        EXPECT_LT(largest(again - a), noise * scale) << set << " " << name << n;
      }
      const Matrix a = random_matrix(n, 5, 7), b = random_matrix(5, 11, 8);
      Matrix product(n, 11);
      small->multiply(n, 11, 5, a.data(), 5, 1, b.data(), 11, 1, product.data());
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < 11; ++j) {
          long double sum = 0;
          for (int64_t l = 0; l < 5; ++l) sum += static_cast<long double>(a(i, l)) * b(l, j);
          EXPECT_NEAR(product(i, j), static_cast<double>(sum), 1e-13) << set << n;
        }
    }
}

TEST(Small, TakesTheWholeRangeOfDoubles) {
  for (const double size : {1e300, 1e150, 1e-150, 1e-290}) {
    const Matrix a = size * with_spectrum({3, 2, 2, 1}, 3);
    const auto [lambda, U] = linalg::eigh(a);
    EXPECT_NEAR(lambda[0] / size, 3, 1e-13);
    EXPECT_NEAR(lambda[3] / size, 1, 1e-13);
    EXPECT_LT(largest(matmul_tn(U, U) - Matrix::identity(4)), 1e-13);
  }
  EXPECT_EQ(linalg::eigh(Matrix(3)).lambda, Vector(3));
}

TEST(SymmetricProducts, AreTheProducts) {
  for (const int64_t n : {1, 7, 16, 29, 32, 33, 128, 129, 200}) {
    const Matrix a = random_matrix(n, n, 1), s = sym(random_matrix(n, n, 2));
    const double noise = 1e-12 * static_cast<double>(n);
    const Matrix whole = matmul_tn(a, matmul(s, a));
    EXPECT_LT(largest(linalg::symmetric_matmul_tn(a, matmul(s, a)) - whole), noise) << n;
    const Matrix other = matmul(a, matmul_nt(s, a));
    EXPECT_LT(largest(linalg::symmetric_matmul(a, matmul_nt(s, a)) - other), noise) << n;
    EXPECT_LT(largest(linalg::symmetric_matmul_nt(matmul(a, s), a) - other), noise) << n;
  }
}

TEST(ParallelFor, VisitsEachOnce) {
  const Threads threads(3);
  for (const int64_t count : {0, 1, 2, 100}) {
    std::vector<int> visits(count);
    parallel_for(count, [&](int64_t i) { ++visits[i]; });
    EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), count);
  }
}

TEST(ParallelFor, TheFirstErrorReachesTheCaller) {
  const Threads threads(3);
  for (int repeat = 0; repeat < 50; ++repeat) try {
      parallel_for(40, [](int64_t i) {
        if (i >= 20) throw std::runtime_error(std::to_string(i));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "20");
    }
}

/// The directional derivative of Σ_ij C_ij T_ij along a symmetric D, from the pullback and from
/// central differences.
void expect_gradient(const std::string& spec, const Matrix& sigma) {
  const int64_t n = sigma.rows();
  const LayerAlgebra algebra(parse(spec), n);
  const Matrix C = random_matrix(n, n, 21), D = sym(random_matrix(n, n, 22));
  const auto map_of = [&](const Matrix& covariance) {
    Statistics statistics;
    statistics.samples = 2;  // Q = (2/M) ∇Σ
    statistics.mean = Vector(n);
    statistics.covariance = BlockMatrix::from_dense(covariance, algebra.block());
    return algebra.map(std::move(statistics), {}, Real::float64);
  };
  const auto inner = [](const Matrix& a, const Matrix& b) {
    double sum = 0;
    for (const double row : rowwise_dot(a, b)) sum += row;
    return sum;
  };
  const LayerMap map = map_of(sigma);
  GradientSums sums = {BlockMatrix::from_dense(C, algebra.product_block()), Vector(n)};
  const LayerGradients gradients = algebra.pullback(map, map.affine, std::move(sums), {});
  const double pulled = inner(gradients.input.Q.dense(), D);
  const double h = 1e-4;
  const auto along = [&](double t) { return inner(C, map_of(sigma + t * D).T.dense()); };
  const double difference =  // of fourth order
      (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h);
  EXPECT_NEAR(pulled / difference, 1, 1e-8) << spec << ", N = " << n;
}

TEST(LargeGradients, AtDistinctNearlyEqualAndEqualEigenvalues) {
  for (const int64_t n : {129, 200}) {
    Vector distinct(n), near(n), equal(n, 1.5);
    for (int64_t k = 0; k < n; ++k) {
      distinct[k] = 1 + 2.0 * k / n;
      near[k] = 1.5 + 1e-12 * k;
    }
    for (const Vector& spectrum : {distinct, near, equal})
      expect_gradient("ZCA(1e-5)", with_spectrum(spectrum, 7));
    expect_gradient("ZCA(1e-5,group_size=64)", with_spectrum(distinct, 7));
    if (n > 129) continue;
    for (const char* spec : {"ZCA_corr(1e-5)", "LDL(1e-5)", "IterNorm(1e-5,5)"})
      expect_gradient(spec, with_spectrum(distinct, 7));
  }
}

}  // namespace
}  // namespace orthobatch::core
