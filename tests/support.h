#pragma once
// What the tests share: lists of specs, random data, relative errors.

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "orthobatch/orthobatch.h"
#include "rooms.h"
#include "tolerances.h"

namespace orthobatch::test {

/// The rows of the paper's SVHN table.
inline const std::vector<std::string>& svhn_specs() {
  static const std::vector<std::string> specs = {
      "ZCA(0)",
      "ZCA(1e-5)",
      "ZCAM(1e-5,c=1/100)",
      "ZCAE(1e-5)",
      "ZCAE(0)",
      "BN->W->Gamma",
      "BN",
      "ZCAM(1e-5,c=1/10)",
      "ZCA_corr(0)",
      "BN->W",
      "ZCAM_corr(1e-5,c=1/10)",
      "LDL(0)",
      "PLDLP(1e-5)",
      "LDL(1e-5)",
      "LDL_corr(1e-5)",
      "ZCA_corr(0)->W",
      "ZCA_corr(0)->W->Gamma",
      "ZCAM_corr(1e-5,c=1/10)->W",
      "ZCAM_corr(1e-5,c=1/10)->W->Gamma",
  };
  return specs;
}

/// Those, the other methods, and the options that change what is computed.
inline std::vector<std::string> all_specs() {
  std::vector<std::string> specs = svhn_specs();
  for (const char* s : {"PCA(0,inf)",
                        "PCA(1e-5,1e12)",
                        "PCA(1e-5)->W->Gamma",
                        "ZCA_spectral(0,inf)",
                        "ZCA_spectral(1e-5,1e12)",
                        "ZCA_spectral(1e-5)->W",
                        "IterNorm(1e-5,5)",
                        "IterNorm(0,9)->W",
                        "ZCAE(1e-5,q=0.5)",
                        "ZCAE(1e-5,q=0)",
                        "ZCAE(1e-5,q=inf)",
                        "PLDLP(0.2)",
                        "PLDLP(0.2,unpermute)",
                        "PLDLP(1e-5,unpermute)->W->Gamma",
                        "PLDLP(1e-5,complete)",
                        "PLDLP(0.2,unpermute,complete)",
                        "PLDLP(1e-5,complete)->W->Gamma",
                        "LDL_corr(0,eps_bn=0.1)",
                        "BN(1e-3,group_size=2)",
                        "ZCA(1e-5,group_size=4)",
                        "ZCA(1e-5,group_size=2)->W->Gamma",
                        "ZCAE(1e-5,group_size=4)",
                        "ZCAM_corr(1e-5,group_size=3)",
                        "LDL(1e-5,group_size=4)",
                        "PLDLP(1e-5,group_size=4)",
                        "PCA(1e-5,group_size=4)",
                        "ZCA_spectral(1e-5,group_size=4)",
                        "IterNorm(1e-5,7,group_size=4)"})
    specs.push_back(s);
  return specs;
}

/// `scripts/test --long`: every seed and direction; else enough of them to show the property.
inline bool long_suite() { return std::getenv("ORTHOBATCH_LONG") != nullptr; }

/// A spec as the name of a parameterized test.
inline std::string test_name(const std::string& spec) {
  std::string out;
  for (char c : spec) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += c;
    else if (c == '.')
      out += "p";
    else if (c == '-')
      out += "m";
    else
      out += "_";
  }
  return out;
}

inline at::Generator generator(uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

/// Correlated channels: (…) standard normal values mixed by a fixed random matrix, mean about 1.
inline torch::Tensor correlated(at::IntArrayRef shape, uint64_t seed,
                                torch::Dtype type = torch::kDouble) {
  auto g = generator(seed);
  const auto options = torch::TensorOptions(torch::kDouble);
  const int64_t n = shape[1];
  torch::Tensor x = at::randn(shape, g, options).movedim(1, -1);
  const torch::Tensor mix = torch::eye(n, options) + 0.3 * at::randn({n, n}, g, options);
  return (torch::matmul(x, mix) + 1.0).movedim(-1, 1).contiguous().to(type);
}

inline double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.detach().to(torch::kDouble), y = b.detach().to(torch::kDouble);
  return ((x - y).norm() / y.norm().clamp_min(1e-300)).item<double>();
}

inline bool is_finite(const torch::Tensor& t) { return t.isfinite().all().item<bool>(); }

/// γ, b and S away from their initial values.
template <typename Layer>
void randomize_parameters(Layer& layer, uint64_t seed) {
  torch::NoGradGuard no_grad;
  auto g = generator(seed);
  for (torch::Tensor& p : layer->parameters())
    p.add_(0.3 * at::randn(p.sizes(), g, torch::TensorOptions(torch::kDouble))
                     .to(p.options().requires_grad(false)));
}

/// The message of the exception that `f` throws; fails the test where it throws none.
template <typename F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception";
  return "";
}

inline void expect_says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' not in: " << message;
}

}  // namespace orthobatch::test
