// ZCA(ε,K), ZCAM(ε,K,c), ZCAE(ε,K,q): T = U λ̃^(−1/2) Uᵀ with Σ+εI = U Λ Uᵀ, λ̃ = max(λ, θ, ε).
// Blanchette & Laganière, Algorithms 5 and 6; Huang et al. 2018 (DBN) for the plain floor.
//
// The three differ in the floor θ alone:  ZCA 0,  ZCAM c·λ₁,  ZCAE λ_r with r = round(exp H_q).

#include <algorithm>
#include <cmath>

#include "core/entropy.h"
#include "core/linalg.h"
#include "core/registry.h"
#include "core/spectrum.h"

namespace orthobatch::core {
namespace {

/// θ as a function of the descending eigenvalues, and where its gradient goes: θ = weight ·
/// λ[source].
struct Floor {
  double theta = 0;
  int64_t source = -1;
  double weight = 0;
  double exact_rank = 0;  // exp H_q before rounding, ZCAE only
};

using FloorRule = std::function<Floor(const Vector& lambda)>;

Floor no_floor(const Vector&) { return {}; }

struct ZcaFactor : Factor {
  Matrix U;
  Vector lambda;    // of Σ+εI
  Vector floored_;  // λ̃
  Vector root;      // λ̃^(−1/2), 0 for a null direction
  std::vector<bool> is_floored;
  Floor floor;
  Gradient gradient = Gradient::exact;
  double K = 0;

  Matrix pullback(const Matrix& dT) const override {
    // Ĝ = Uᵀ sym(∇T) U, whose place Uᵀ ∇Σ U takes
    Matrix inner = linalg::symmetric_matmul_tn(U, linalg::matmul(sym(dT), U));
    const Vector g = eigenvalues(inner);
    gradient == Gradient::exact ? eigenvectors_exact(inner) : eigenvectors_paper(inner);
    for (int64_t k = 0; k < inner.rows(); ++k) inner(k, k) = g[k];
    return linalg::symmetric_matmul(U, linalg::matmul_nt(inner, U));
  }

  std::vector<int64_t> branch() const override {
    std::vector<int64_t> out(is_floored.begin(), is_floored.end());
    out.push_back(floored > 0 ? floor.source : -1);
    return out;
  }

  std::vector<std::string> kinks() const override;

 private:
  // ∇λ: gk = −½ Ĝkk λ̃k^(−3/2), the floored ones moved to the eigenvalue that sets the floor.
  Vector eigenvalues(const Matrix& G) const {
    Vector g(lambda.size());
    double moved = 0;
    for (size_t k = 0; k < g.size(); ++k) {
      const double gk = -0.5 * G(k, k) * root[k] * root[k] * root[k];
      if (is_floored[k])
        moved += gk;
      else
        g[k] = gk;
    }
    if (floor.source >= 0) g[floor.source] += floor.weight * moved;
    return g;
  }

  // Daleckii–Krein: Ĝij (f(λi) − f(λj))/(λi − λj) without the subtraction, so that equal
  // eigenvalues are as accurate as distinct ones.
  void eigenvectors_exact(Matrix& G) const {
    parallel_rows(G.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < i; ++j) G(i, j) *= divided_difference(i, j);
    });
    mirror_lower(G);
  }

  double divided_difference(int64_t i, int64_t j) const {
    if (root[i] == 0 && root[j] == 0) return 0;  // both null
    if (root[i] == 0 || root[j] == 0) return (root[i] - root[j]) / (lambda[i] - lambda[j]);
    double rho = 1;
    if (is_floored[i] && is_floored[j])
      rho = 0;
    else if (is_floored[i] || is_floored[j])
      rho = (floored_[i] - floored_[j]) / (lambda[i] - lambda[j]);
    // 1/(√λ̃i √λ̃j (√λ̃i+√λ̃j)) in terms of the inverse roots
    return -rho * root[i] * root[i] * root[j] * root[j] / (root[i] + root[j]);
  }

  // Algorithm 6 as printed: F from the floored eigenvalues, infinities to 0, clamped to ±K.
  void eigenvectors_paper(Matrix& G) const {
    for (int64_t i = 0; i < G.rows(); ++i)
      for (int64_t j = 0; j < i; ++j)
        G(i, j) *= (root[j] - root[i]) * clamped_inverse(floored_[j] - floored_[i], K);
    mirror_lower(G);
  }
};

std::vector<std::string> ZcaFactor::kinks() const {
  std::vector<std::string> out;
  if (floor.source < 0) return out;
  const int64_t n = static_cast<int64_t>(lambda.size()), s = floor.source;
  const double near = kink_tolerance * lambda[0];
  const auto meet = [&](int64_t i, int64_t j) {
    return i >= 0 && j < n && std::abs(lambda[i] - lambda[j]) <= near;
  };
  for (int64_t k = 0; k < n; ++k)
    if (k != s && floor.weight != 1 && std::abs(lambda[k] - floor.theta) <= near)
      out.push_back("eigenvalue " + std::to_string(k + 1) + " sits on the floor");
  if (floor.weight == 1 ? s + 1 < n && (meet(s - 1, s) || meet(s, s + 1))
                        : floored > 0 && meet(s, s + 1))
    out.push_back("eigenvalue " + std::to_string(s + 1) + ", which sets the floor, is not simple");
  if (floor.exact_rank > 0) {
    const double fraction = floor.exact_rank - std::floor(floor.exact_rank);
    if (std::abs(fraction - 0.5) <= kink_tolerance)
      out.push_back("the effective rank is half-way between two integers");
  }
  return out;
}

class Zca : public Method {
 public:
  Zca(const Arguments& a, FloorRule rule)
      : eps_(a["eps"]), K_(a["K"]), gradient_(a.gradient), rule_(std::move(rule)) {}

  std::unique_ptr<Factor> factor(const Matrix& sigma, const Vector&) const override {
    return condition(sigma, eps_, rule_);
  }

  std::unique_ptr<Factor> factor_average(const Matrix& sigma, const Vector&) const override {
    return condition(sigma, 0.0, no_floor);
  }

 private:
  std::unique_ptr<Factor> condition(const Matrix& sigma, double eps, const FloorRule& rule) const {
    auto f = std::make_unique<ZcaFactor>();
    Matrix shifted = add_to_diagonal(sigma, eps);
    auto [lambda, U] = linalg::eigh(shifted);
    const size_t n = lambda.size();
    f->floor = rule(lambda);
    if (f->floor.theta < eps || f->floor.theta <= 0) f->floor.source = -1;
    const double theta = f->floor.source >= 0 ? f->floor.theta : 0.0;
    // Σ is positive semidefinite, so below ε there is nothing but rounding: that is cut off but
    // does not count as floored. Without any floor, what is rounding noise counts as null.
    const double null = eps > 0 || theta > 0 ? -1.0 : linalg::null_tolerance(n) * lambda[0];
    f->floored_.resize(n);
    f->root.resize(n);
    f->is_floored.resize(n);
    for (size_t k = 0; k < n; ++k) {
      const bool is_null = lambda[k] <= null;
      f->is_floored[k] = theta > 0 && lambda[k] < theta;
      f->floored_[k] = is_null ? 0.0 : std::max({lambda[k], theta, eps});
      f->root[k] = is_null ? 0.0 : 1.0 / std::sqrt(f->floored_[k]);
      f->floored += f->is_floored[k];
      f->null += is_null;
      f->empty += is_empty(f->floored_[k], eps);
    }
    f->T = spectral_function(U, f->root);
    // The product only where an eigenvalue was moved.
    f->conditioned = f->floored_ == lambda ? std::move(shifted) : spectral_function(U, f->floored_);
    f->U = std::move(U);
    f->lambda = std::move(lambda);
    f->gradient = gradient_;
    f->K = K_;
    return f;
  }

  double eps_, K_;
  Gradient gradient_;
  FloorRule rule_;
};

/// The arguments of all three; `own` is one more.
std::vector<Parameter> zca_parameters(std::vector<Parameter> own = {}) {
  std::vector<Parameter> out = {eps_parameter(), clamp_parameter()};
  out[1].meaning = "largest |1/(λi−λj)|, with gradient=paper alone";
  out[1].paper_only = true;
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

}  // namespace

MethodInfo zca_method() {
  MethodInfo info = {"ZCA",
                     "U λ^(−1/2) Uᵀ, Σ+εI = U diag(λ) Uᵀ",
                     "whitening that moves the data the least",
                     "SVHN 5.82 % with (0,inf), the best of all; 5.95 % with (1e-5,1e12)",
                     zca_parameters(),
                     [](const Arguments& a) { return std::make_unique<Zca>(a, no_floor); }};
  info.has_paper_gradient = true;
  return info;
}

MethodInfo zcam_method() {
  Parameter c;
  c.name = "c";
  c.default_value = 0.01;
  c.maximum = 1;
  c.style = Parameter::Style::fraction;
  c.meaning = "floor as a fraction of the largest eigenvalue";
  MethodInfo info = {"ZCAM",
                     "U λ̃^(−1/2) Uᵀ, Σ+εI = U diag(λ) Uᵀ, λ̃ = max(λ, c·λ₁)",
                     "ZCA with the condition number held under 1/c",
                     "MNIST 0.32 % (epoch 36); SVHN 6.01 % with c = 1/100, 6.50 % with 1/10",
                     zca_parameters({c}),
                     [](const Arguments& a) {
                       return std::make_unique<Zca>(a, [c = a["c"]](const Vector& lambda) {
                         return Floor{c * lambda[0], 0, c, 0.0};
                       });
                     }};
  info.has_paper_gradient = true;
  return info;
}

MethodInfo zcae_method() {
  Parameter q;
  q.name = "q";
  q.default_value = 1;
  q.positional = false;
  q.meaning = "order of the Rényi entropy; 1 is Shannon's";
  const auto floor_at_rank = [](const Vector& lambda, double order) {
    const double rank = effective_rank(lambda, order);
    const int64_t n = static_cast<int64_t>(lambda.size());
    const int64_t r = std::clamp<int64_t>(std::llround(rank), 1, n);
    return Floor{lambda[r - 1], r - 1, 1.0, rank};
  };
  MethodInfo info = {
      "ZCAE",
      "U λ̃^(−1/2) Uᵀ, Σ+εI = U diag(λ) Uᵀ, λ̃ = max(λ, λ_r), r = round(exp H_q)",
      "ZCA floored at the eigenvalue of the effective rank",
      "MNIST 0.30 % (epoch 25), the best; SVHN 6.28 % with (1e-5,1e12), 6.33 % with (0,inf)",
      zca_parameters({q}),
      [floor_at_rank](const Arguments& a) {
        return std::make_unique<Zca>(
            a, [=, q = a["q"]](const Vector& lambda) { return floor_at_rank(lambda, q); });
      }};
  info.has_paper_gradient = true;
  return info;
}

}  // namespace orthobatch::core
