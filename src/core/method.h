#pragma once
// What a whitening method is: a map from a covariance Σ to a transform T, and its pullback.

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/matrix.h"
#include "orthobatch/spec.h"

namespace orthobatch::core {

/// T = factor(Σ), with what the pullback needs to remember.
class Factor {
 public:
  virtual ~Factor() = default;

  Matrix T;               ///< N×N, Z = R T Xc + b
  Matrix conditioned;     ///< Σ as the running average takes it: floored, ε included where added
  int64_t floored = 0;    ///< eigenvalues or pivots raised to the floor
  int64_t null = 0;       ///< eigenvalues or pivots numerically zero: 0 in T, no gradient
  int64_t empty = 0;      ///< those no larger than ε, so that T divides by little more than √ε
  int64_t exchanges = 0;  ///< pivots that were not the next row, for the methods that pivot

  /// ∇Σ from ∇T. The caller symmetrizes; G need not be symmetric.
  virtual Matrix pullback(const Matrix& dT) const = 0;

  /// ∇γ from ∇T, for the methods that keep the scale inside T.
  virtual Vector pullback_scale(const Matrix& /*dT*/) const { return {}; }

  /// The discrete choices behind T (a permutation, which values are floored, a sign). Where two
  /// points differ here, a finite difference between them says nothing.
  virtual std::vector<int64_t> branch() const { return {}; }

  /// Why no gradient exists at this Σ, or exists only below what doubles resolve; empty if it does.
  virtual std::vector<std::string> kinks() const { return {}; }
};

class Method {
 public:
  virtual ~Method() = default;

  /// T from a batch's covariance. `gamma` is all ones except for methods with the scale inside.
  virtual std::unique_ptr<Factor> factor(const Matrix& sigma, const Vector& gamma) const = 0;

  /// T for evaluation, from the running average of `conditioned`: ε is in it already, and so are
  /// the floors. The default is for methods whose `conditioned` is Σ itself.
  virtual std::unique_ptr<Factor> factor_average(const Matrix& sigma, const Vector& gamma) const {
    return factor(sigma, gamma);
  }
};

/// A method whose running average has ε in it already: evaluation is the same map with ε = 0.
class RegularizedMethod : public Method {
 public:
  explicit RegularizedMethod(double eps) : eps_(eps) {}

  std::unique_ptr<Factor> factor(const Matrix& sigma, const Vector& gamma) const final {
    return decompose(sigma, gamma, eps_);
  }
  std::unique_ptr<Factor> factor_average(const Matrix& sigma, const Vector& gamma) const final {
    return decompose(sigma, gamma, 0.0);
  }

 protected:
  virtual std::unique_ptr<Factor> decompose(const Matrix& sigma, const Vector& gamma,
                                            double eps) const = 0;

 private:
  double eps_;
};

/// One argument of a method's spec.
struct Parameter {
  enum class Style { number, fraction, integer, flag };

  std::string name;
  double default_value = 0;
  double minimum = 0;
  double maximum = std::numeric_limits<double>::infinity();
  bool finite = false;  ///< nor is infinity
  Style style = Style::number;
  bool positional = true;   ///< may stand without its name, in the order of the list
  bool paper_only = false;  ///< acts with gradient=paper alone
  std::string meaning;      ///< for `orthobatch layers`
};

/// The arguments a method is made from.
struct Arguments {
  std::map<std::string, double> values;
  Gradient gradient = Gradient::exact;

  double operator[](const std::string& name) const { return values.at(name); }
};

/// A method as the registry lists it: the one thing specs, modules, tests and the program iterate.
struct MethodInfo {
  std::string name;
  std::string formula;      ///< T in a line
  std::string description;  ///< what it does in a sentence
  std::string paper;        ///< what the paper found
  std::vector<Parameter> parameters;
  std::function<std::unique_ptr<Method>(const Arguments&)> make;
  bool has_paper_gradient = false;
  bool scale_inside = false;  ///< γ is part of T
  bool per_channel = false;   ///< sees each channel alone: no covariance is formed

  const Parameter* find(const std::string& parameter) const {
    for (const Parameter& p : parameters)
      if (p.name == parameter) return &p;
    return nullptr;
  }
};

// Parameters that several methods share.
inline Parameter eps_parameter() {
  Parameter p;
  p.name = "eps";
  p.default_value = 1e-5;
  p.finite = true;
  p.meaning = "added to the variances";
  return p;
}

inline Parameter clamp_parameter() {
  Parameter p;
  p.name = "K";
  p.default_value = 1e12;
  p.minimum = 1;  // less is a c in the place of K: ZCAM(1e-5, 1/10)
  p.meaning = "largest |1/(λi−λj)| in the gradient";
  return p;
}

inline Parameter flag_parameter(const char* name, const char* meaning) {
  Parameter p;
  p.name = name;
  p.maximum = 1;
  p.style = Parameter::Style::flag;
  p.positional = false;
  p.meaning = meaning;
  return p;
}

}  // namespace orthobatch::core
