// PLDLP(ε): T = D̃^(−1/2) L^(−1) P with P Σ Pᵀ = L D Lᵀ and d̃ = max(d, ε). P is that of MATLAB's
// ldl, which hardly ever moves a channel; `complete` takes the largest pivot first. `unpermute`
// puts the outputs back in the places of their channels: T = Pᵀ D̃^(−1/2) L^(−1) P. Blanchette &
// Laganière, Algorithms 3 and 4.

#include <algorithm>
#include <cmath>

#include "core/ldl.h"
#include "core/linalg.h"
#include "core/registry.h"
#include "core/spectrum.h"

namespace orthobatch::core {
namespace {

/// P: row k has its 1 in column order[k].
std::vector<int64_t> inverse_order(const std::vector<int64_t>& order) {
  std::vector<int64_t> out(order.size());
  for (size_t k = 0; k < order.size(); ++k) out[order[k]] = static_cast<int64_t>(k);
  return out;
}

struct PldlpFactor : Factor {
  LdlDecomposition ldl;
  Matrix A;  // D̃^(−1/2) L^(−1)
  Vector d;  // d̃
  std::vector<bool> has_gradient;
  double eps = 0;
  bool unpermute = false, complete = false;
  Gradient gradient = Gradient::exact;

  Matrix pullback(const Matrix& dT) const override {
    Matrix dA = take_cols(dT, ldl.order);  // ∇A = ∇T Pᵀ
    if (unpermute) dA = take_rows(dA, ldl.order);
    const Matrix dB = pullback_ldl(ldl, A, dA, d, has_gradient, gradient);
    const std::vector<int64_t> back = inverse_order(ldl.order);
    return take_rows(take_cols(dB, back), back);  // ∇Σ = Pᵀ ∇(PΣPᵀ) P
  }

  std::vector<int64_t> branch() const override {
    std::vector<int64_t> out = ldl.order;
    out.insert(out.end(), has_gradient.begin(), has_gradient.end());
    return out;
  }

  std::vector<std::string> kinks() const override {
    std::vector<std::string> out;
    if (ldl.tied)
      out.push_back(complete
                        ? "two channels tie for a pivot"
                        : "a pivot is at the threshold of an exchange, or two rows tie for one");
    if (eps > 0 && std::count(ldl.null.begin(), ldl.null.end(), true) > 1)
      out.push_back("more than one pivot is zero, so what is left of their rows is arbitrary");
    else if (eps > 0 && !std::is_sorted(ldl.null.begin(), ldl.null.end()))
      out.push_back(
          "a pivot before the last is zero: a change of the data would move the rows after it");
    for (size_t k = 0; k < d.size(); ++k)
      if (eps > 0 && std::abs(ldl.d[k] - eps) <= kink_tolerance * eps)
        out.push_back("pivot " + std::to_string(k + 1) + " sits on the floor");
    return out;
  }
};

class Pldlp : public RegularizedMethod {
 public:
  explicit Pldlp(const Arguments& a)
      : RegularizedMethod(a["eps"]),
        unpermute_(a["unpermute"] != 0),
        complete_(a["complete"] != 0),
        gradient_(a.gradient) {}

 private:
  std::unique_ptr<Factor> decompose(const Matrix& sigma, const Vector&, double eps) const override {
    auto f = std::make_unique<PldlpFactor>();
    f->ldl = ldl(sigma, complete_ ? Pivoting::largest_diagonal : Pivoting::bunch_kaufman, 0.0);
    f->exchanges = f->ldl.exchanges;
    const size_t n = f->ldl.d.size();
    f->d.resize(n);
    Vector root(n);
    for (size_t k = 0; k < n; ++k) {
      f->has_gradient.push_back(!f->ldl.null[k] && f->ldl.d[k] >= eps);
      f->d[k] = std::max(f->ldl.d[k], eps);
      f->floored += f->ldl.d[k] < eps;
      f->null += f->d[k] == 0;
      if (f->d[k] > 0) root[k] = 1.0 / std::sqrt(f->d[k]);
    }
    f->A = scale_rows(root, f->ldl.L_inverse);
    const std::vector<int64_t> back = inverse_order(f->ldl.order);
    f->T = take_cols(f->A, back);  // A P
    if (unpermute_) f->T = take_rows(f->T, back);
    f->conditioned =
        take_rows(take_cols(linalg::matmul_nt(scale_cols(f->ldl.L, f->d), f->ldl.L), back), back);
    f->eps = eps;
    f->unpermute = unpermute_;
    f->complete = complete_;
    f->gradient = gradient_;
    return f;
  }

  bool unpermute_, complete_;
  Gradient gradient_;
};

}  // namespace

MethodInfo pldlp_method() {
  MethodInfo info = {
      "PLDLP",
      "D̃^(−1/2) L^(−1) P, PΣPᵀ = L D Lᵀ, d̃ = max(d, ε)",
      "Cholesky whitening, rows exchanged where a pivot is small",
      "MNIST 0.38 % (epoch 20); SVHN 6.86 %",
      {eps_parameter(), flag_parameter("unpermute", "outputs stay in the places of their channels"),
       flag_parameter("complete", "the channel with most variance left is the next pivot")},
      [](const Arguments& a) { return std::make_unique<Pldlp>(a); }};
  info.parameters[0].meaning = "floor of the pivots";
  info.has_paper_gradient = true;
  return info;
}

}  // namespace orthobatch::core
