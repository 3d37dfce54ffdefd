// The method that CONTRIBUTING.md takes for an example is one: the build takes its code from there.

#include "check/differences.h"
#include "core/registry.h"
#include "kernels/convert.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {

namespace core {
MethodInfo ldl_reversed_method();  // as the text says to declare it in core/registry.h
}  // namespace core

namespace {

using torch::Tensor;

constexpr int64_t n = 5;

class Example : public testing::Test {
 protected:
  std::unique_ptr<Factor> factor(const Tensor& covariance, double eps) const {
    const MethodInfo info = ldl_reversed_method();
    EXPECT_TRUE(info.find("eps"));
    return info.make({{{"eps", eps}}, Gradient::exact})->factor(to_matrix(covariance), ones);
  }

  const Tensor x = test::correlated({40, n}, 1) - 1.0;
  const Tensor sigma = x.t().mm(x) / 40;
  const Vector ones = Vector(n, 1.0);
};

TEST_F(Example, IsDescribed) {
  const MethodInfo info = ldl_reversed_method();
  EXPECT_EQ(info.name, "LDL_reversed");
  for (const std::string& text : {info.formula, info.description, info.paper})
    EXPECT_FALSE(text.empty());
}

TEST_F(Example, WhitensFromTheLastChannelToTheFirst) {
  const Tensor T = to_tensor(factor(sigma, 0)->T);
  EXPECT_LT((T.mm(sigma).mm(T.t()) - torch::eye(n, torch::kDouble)).abs().max().item<double>(),
            tolerance::whiteness);
  EXPECT_TRUE(T.equal(T.triu())) << T;
  EXPECT_GT((T - T.diag().diag()).abs().max().item<double>(), 0.01);
}

TEST_F(Example, ItsAverageIsThatOfWhatItFactored) {
  const MethodInfo info = ldl_reversed_method();
  const auto method = info.make({{{"eps", 0.1}}, Gradient::exact});
  const auto batch = method->factor(to_matrix(sigma), ones);
  const auto average = method->factor_average(batch->conditioned, ones);
  EXPECT_LT(test::relative_error(to_tensor(average->T), to_tensor(batch->T)), tolerance::reference);
}

TEST_F(Example, HasTheGradientOfItsTransform) {
  auto generator = test::generator(2);
  const Tensor dT = at::randn({n, n}, generator, sigma.options());
  for (const double eps : {0.0, 0.1}) {
    const Tensor gradient = to_tensor(sym(factor(sigma, eps)->pullback(to_matrix(dT))));
    const auto along = directions(sigma, n * n, generator);
    const Differences fd = central_differences(
        sigma, along,
        [&](const Tensor& s) -> std::optional<double> {
          return (to_tensor(factor((s + s.t()) / 2, eps)->T) * dT).sum().item<double>();
        },
        1e-3);
    ASSERT_EQ(fd.values.size(), along.size());
    EXPECT_LT(distance(project(gradient, along), fd.values, 1e-3), tolerance::gradient) << eps;
  }
}

}  // namespace
}  // namespace orthobatch
