// Statistics of parts, merged: those of the whole.

#include "core/statistics.h"

#include "core/layer.h"
#include "kernels/convert.h"
#include "kernels/passes.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;

TEST(Statistics, OfUnevenPartsAreThoseOfTheWhole) {
  for (const int64_t block : {1, 3, 6}) {
    const Tensor x = test::correlated({10, 6, 3, 3}, 1) + 100.0;
    std::vector<Statistics> parts;
    for (const auto& [first, count] : {std::pair{0, 3}, {3, 0}, {3, 1}, {4, 6}})
      if (count == 0)
        parts.push_back({0, Vector(6), BlockMatrix(6, block)});
      else
        parts.push_back(cpu_passes().moments(x.narrow(0, first, count).contiguous(), block));
    const Statistics merged = merge(parts), whole = cpu_passes().moments(x, block);
    EXPECT_EQ(merged.samples, 90);
    for (int64_t c = 0; c < 6; ++c) EXPECT_NEAR(merged.mean[c], whole.mean[c], 1e-12);
    for (size_t k = 0; k < whole.covariance.values().size(); ++k)
      EXPECT_NEAR(merged.covariance.values()[k], whole.covariance.values()[k], 1e-12);
  }
  EXPECT_THROW(merge({}), std::invalid_argument);
}

// What a layer of several processes does: statistics merged, sums of the backward pass added.
TEST(Statistics, TheAlgebraOfPartsIsThatOfTheWhole) {
  const LayerSpec spec = "ZCAE(1e-5)->W->Gamma";
  const Tensor x = test::correlated({10, 5, 3, 3}, 1) + 10.0,
               g = test::correlated({10, 5, 3, 3}, 2);
  const LayerAlgebra algebra(spec, 5);
  const LayerParameters p{Vector(5, 1.5), Vector(5, 0.5), Vector(10, 0.1)};
  const auto part = [](const Tensor& t, int64_t first, int64_t count) {
    return t.narrow(0, first, count).contiguous();
  };
  const LayerMap map = algebra.map(merge({cpu_passes().moments(part(x, 0, 3), algebra.block()),
                                          cpu_passes().moments(part(x, 3, 7), algebra.block())}),
                                   p, Real::float64),
                 whole = algebra.map(cpu_passes().moments(x, algebra.block()), p, Real::float64);
  const auto sums_of = [&](const LayerMap& f, const Tensor& gradient, const Tensor& data) {
    return cpu_passes().products(gradient, data, f.affine.center, algebra.product_block(),
                                 f.affine.sums);
  };
  GradientSums sums = sums_of(map, part(g, 0, 3), part(x, 0, 3));
  const GradientSums rest = sums_of(map, part(g, 3, 7), part(x, 3, 7));
  sums.B += rest.B;
  for (int64_t c = 0; c < 5; ++c) sums.sum[c] += rest.sum[c];
  const LayerGradients a = algebra.pullback(map, map.affine, sums, {}),
                       b = algebra.pullback(whole, whole.affine, sums_of(whole, g, x), {});
  const Tensor dx =
      torch::cat({cpu_passes().input_gradient(part(g, 0, 3), part(x, 0, 3), a.input),
                  cpu_passes().input_gradient(part(g, 3, 7), part(x, 3, 7), a.input)});
  EXPECT_LT(test::relative_error(dx, cpu_passes().input_gradient(g, x, b.input)), 1e-11);
  EXPECT_LT(test::relative_error(to_tensor(a.gamma), to_tensor(b.gamma)), 1e-11);
  EXPECT_LT(test::relative_error(to_tensor(a.skew), to_tensor(b.skew)), 1e-11);
}

}  // namespace
}  // namespace orthobatch
