// The passes over the data: our kernels against ATen's operations, in every layout and block size.

#include <algorithm>

#include "kernels/passes.h"

#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;
using namespace kernels;

double error(const Vector& a, const Vector& b) {
  return test::relative_error(torch::tensor(a, torch::kDouble), torch::tensor(b, torch::kDouble));
}

BlockMatrix random_blocks(int64_t n, int64_t block, uint64_t seed) {
  auto g = test::generator(seed);
  BlockMatrix out(n, block);
  const auto size = static_cast<int64_t>(out.values().size());
  const Tensor t = at::randn({size}, g, torch::TensorOptions(torch::kDouble));
  std::copy_n(t.data_ptr<double>(), size, out.values().begin());
  return out;
}

struct Shape {
  const char* name;
  std::vector<int64_t> sizes;
  bool channels_last;
};

class Passes : public testing::TestWithParam<std::tuple<Shape, int64_t>> {
 protected:
  void SetUp() override {
    const auto& [shape, b] = GetParam();
    x = arrange(test::correlated(shape.sizes, 1), shape.channels_last);
    g = arrange(test::correlated(shape.sizes, 2) - 1.0, shape.channels_last);
    n = x.size(1);
    block = b == 0 ? n : std::min(b, n);
    for (int64_t c = 0; c < n; ++c) center.push_back(1.0 + 0.01 * static_cast<double>(c));
    for (int64_t c = 0; c < n; ++c) offset.push_back(0.1 * static_cast<double>(c));
  }

  static Tensor arrange(const Tensor& t, bool channels_last) {
    return channels_last ? t.movedim(1, -1).contiguous().movedim(-1, 1) : t;
  }

  Tensor x, g;
  int64_t n = 0, block = 0;
  Vector center, offset;
};

TEST_P(Passes, MomentsAgree) {
  const Statistics a = cpu_passes().moments(x, block), b = aten_passes().moments(x, block);
  EXPECT_LT(error(a.mean, b.mean), tolerance::passes);
  EXPECT_LT(error(a.covariance.values(), b.covariance.values()), tolerance::passes);
}

TEST_P(Passes, TransformAgreesAndKeepsTheLayout) {
  const BlockMatrix P = random_blocks(n, block, 3);
  const Tensor a = cpu_passes().transform(x, {P, center, offset, Sums::in_type}),
               b = aten_passes().transform(x, {P, center, offset, Sums::in_type});
  EXPECT_LT(test::relative_error(a, b), tolerance::passes);
  EXPECT_EQ(a.strides(), x.strides());
  EXPECT_EQ(b.strides(), x.strides());
}

TEST_P(Passes, FloatTransformSummedInDoubleIsTheDoubleOneRounded) {
  const BlockMatrix P = random_blocks(n, block, 3);
  const Tensor f = x.to(torch::kFloat);
  const Tensor exact =
      aten_passes().transform(f.to(torch::kDouble), {P, center, offset, Sums::in_type});
  for (const kernels::Passes* passes : {&cpu_passes(), &aten_passes()}) {
    const Tensor z = passes->transform(f, {P, center, offset, Sums::in_double});
    EXPECT_EQ(z.scalar_type(), torch::kFloat);
    EXPECT_EQ(z.strides(), x.strides());
    EXPECT_LT(test::relative_error(z, exact), 6e-8);
  }
}

TEST_P(Passes, ProductsAgree) {
  const GradientSums a = cpu_passes().products(g, x, center, block, Sums::in_type),
                     b = aten_passes().products(g, x, center, block, Sums::in_type);
  EXPECT_LT(error(a.B.values(), b.B.values()), tolerance::passes);
  EXPECT_LT(error(a.sum, b.sum), tolerance::passes);
}

TEST_P(Passes, InputGradientAgreesForEveryPairOfBlocks) {
  for (int64_t p_block : {block, n})  // with a rotation P is dense whatever Q is
    for (bool with_q : {true, false}) {
      const BlockMatrix P = random_blocks(n, p_block, 4);
      const BlockMatrix Q = with_q ? random_blocks(n, block, 5) : BlockMatrix();
      const Tensor a =
          cpu_passes().input_gradient(g, x, {P, Q, center, offset, Sums::in_type, 1.0});
      const Tensor b =
          aten_passes().input_gradient(g, x, {P, Q, center, offset, Sums::in_type, 1.0});
      EXPECT_LT(test::relative_error(a, b), tolerance::passes);
      EXPECT_EQ(a.strides(), g.strides());
    }
}

TEST_P(Passes, WhatTheStatisticsAddIsTheInputGradientWithoutG) {
  const BlockMatrix Q = random_blocks(n, block, 5);
  for (const double scale : {1.0, 0.25}) {
    const GradientMap map = {{}, Q, center, offset, Sums::in_type, scale};
    Tensor a = g.clone(), b = g.clone(), zero = torch::zeros_like(g);
    cpu_passes().add_statistics_gradient(a, x, map);
    aten_passes().add_statistics_gradient(b, x, map);
    EXPECT_LT(test::relative_error(a, b), tolerance::passes);
    const GradientMap both = {BlockMatrix(n, 1), Q, center, offset, Sums::in_type, scale};
    EXPECT_LT(test::relative_error(a - g, aten_passes().input_gradient(zero, x, both)),
              tolerance::passes);

    const Tensor fx = x.to(torch::kFloat);
    Tensor exact = g.to(torch::kFloat).to(torch::kDouble), rounded = g.to(torch::kFloat);
    aten_passes().add_statistics_gradient(exact, fx.to(torch::kDouble), map);
    cpu_passes().add_statistics_gradient(rounded, fx,
                                         {{}, Q, center, offset, Sums::in_double, scale});
    EXPECT_LT(test::relative_error(rounded, exact), 6e-8);
  }
}

TEST_P(Passes, ProductsWithVectorsAgree) {
  EXPECT_LT(test::relative_error(cpu_passes().channel_sums(g), aten_passes().channel_sums(g)),
            tolerance::passes);
  for (const int64_t groups : {int64_t{1}, n}) {
    const Tensor dots = cpu_passes().dots(x, offset, groups);
    EXPECT_LT(test::relative_error(dots, aten_passes().dots(x, offset, groups)), tolerance::passes);
    const GradientSums a = cpu_passes().weight_products(g, x, dots, block, groups),
                       b = aten_passes().weight_products(g, x, dots, block, groups);
    EXPECT_LT(error(a.B.values(), b.B.values()), tolerance::passes);
    EXPECT_LT(error(a.sum, b.sum), tolerance::passes);
  }
}

// ATen's passes multiply float data in float and sum chunks in double.
TEST_P(Passes, FloatOnAnyDeviceIsFloatOnTheCpu) {
  const Tensor fx = x.to(torch::kFloat), fg = g.to(torch::kFloat);
  const BlockMatrix P = random_blocks(n, block, 4), Q = random_blocks(n, block, 5);
  const AffineMap map = {P, center, offset, Sums::in_type};
  const GradientMap back = {P, Q, center, offset, Sums::in_type, 0.25};
  const auto &cpu = cpu_passes(), &aten = aten_passes();
  for (const Sums sums : {Sums::in_type, Sums::in_double}) {
    const Statistics a = cpu.moments(fx, block), b = aten.moments(fx, block, sums);
    const double tolerance = sums == Sums::in_double ? 1e-12 : tolerance::float_passes;
    EXPECT_LT(error(b.mean, a.mean), tolerance);
    EXPECT_LT(error(b.covariance.values(), a.covariance.values()), tolerance);
    const GradientSums c = cpu.products(fg, fx, center, block, sums),
                       d = aten.products(fg, fx, center, block, sums);
    EXPECT_LT(error(d.B.values(), c.B.values()), tolerance::float_passes);
    EXPECT_LT(error(d.sum, c.sum), tolerance::float_passes);
  }
  EXPECT_LT(test::relative_error(aten.transform(fx, map), cpu.transform(fx, map)),
            tolerance::float_passes);
  EXPECT_LT(
      test::relative_error(aten.input_gradient(fg, fx, back), cpu.input_gradient(fg, fx, back)),
      tolerance::float_passes);
}

TEST_P(Passes, FloatBackwardSummedInDoubleIsTheDoubleOneRounded) {
  const Tensor fx = x.to(torch::kFloat), fg = g.to(torch::kFloat);
  const Tensor dx = fx.to(torch::kDouble), dg = fg.to(torch::kDouble);
  const GradientSums exact = aten_passes().products(dg, dx, center, block, Sums::in_type),
                     ours = cpu_passes().products(fg, fx, center, block, Sums::in_double);
  // A diagonal's factors are rounded to float, their sums are not.
  const double tolerance = block == 1 ? 6e-8 : tolerance::passes;
  EXPECT_LT(error(ours.B.values(), exact.B.values()), tolerance);
  EXPECT_LT(error(ours.sum, exact.sum), tolerance::passes);
  for (int64_t p_block : {block, n})
    for (bool with_q : {true, false}) {
      const BlockMatrix P = random_blocks(n, p_block, 4);
      const BlockMatrix Q = with_q ? random_blocks(n, block, 5) : BlockMatrix();
      const Tensor a = cpu_passes().input_gradient(fg, fx,
                                                   {P, Q, center, offset, Sums::in_double, 1.0}),
                   b = aten_passes().input_gradient(dg, dx,
                                                    {P, Q, center, offset, Sums::in_type, 1.0});
      EXPECT_EQ(a.scalar_type(), torch::kFloat);
      EXPECT_EQ(a.strides(), g.strides());
      EXPECT_LT(test::relative_error(a, b), 6e-8);
    }
}

TEST_P(Passes, OneAndTwoThreadsAgree) {
  const int before = torch::get_num_threads();
  torch::set_num_threads(1);
  const Statistics one = cpu_passes().moments(x, block);
  torch::set_num_threads(2);
  const Statistics two = cpu_passes().moments(x, block), again = cpu_passes().moments(x, block);
  torch::set_num_threads(before);
  EXPECT_LT(error(one.covariance.values(), two.covariance.values()), tolerance::passes);
  EXPECT_EQ(two.covariance.values(), again.covariance.values()) << "same threads, same bits";
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Passes,
    testing::Combine(
        testing::Values(
            Shape{"flat", {300, 9}, false}, Shape{"single_channel", {40, 1, 3}, false},
            Shape{"sequence", {12, 9, 31}, false}, Shape{"sequence_last", {12, 9, 31}, true},
            Shape{"image", {6, 13, 9, 11}, false}, Shape{"image_last", {6, 13, 9, 11}, true},
            Shape{"wide", {3, 70, 40, 40}, false}, Shape{"wide_last", {3, 70, 40, 40}, true},
            Shape{"small_images", {70, 37, 3, 3}, false}, Shape{"point", {50, 13, 1, 1}, false},
            Shape{"volume_last", {3, 8, 4, 5, 6}, true}),
        testing::Values(0, 1, 4, 8, 16)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) + "_block" +
             std::to_string(std::get<1>(info.param));
    });

// What a net's first layer sees: 262,144 samples, so many tiles that a float sum over all of them
// would be off by more than a rounding. The images of 256×256 are several tiles each.
class NetSize : public testing::TestWithParam<Shape> {};

TEST_P(NetSize, FloatProductsAndInputGradientAgreeWithDouble) {
  const Shape& shape = GetParam();
  const auto arrange = [&](const Tensor& t) {
    return shape.channels_last ? t.contiguous(torch::MemoryFormat::ChannelsLast) : t;
  };
  const Tensor x = arrange(test::correlated(shape.sizes, 1, torch::kFloat)),
               g = arrange(test::correlated(shape.sizes, 2, torch::kFloat) - 1.0);
  const Tensor dx = x.to(torch::kDouble), dg = g.to(torch::kDouble);
  const int64_t n = x.size(1);
  ASSERT_EQ(x.numel() / n, 262144);
  const Vector center(n, 1.0), offset(n, 0.1);
  const BlockMatrix dense = random_blocks(n, n, 4);
  for (const int64_t block : {n, int64_t{4}, int64_t{1}}) {
    const GradientSums ours = cpu_passes().products(g, x, center, block, Sums::in_type),
                       exact = aten_passes().products(dg, dx, center, block, Sums::in_type);
    EXPECT_LT(error(ours.B.values(), exact.B.values()), tolerance::float_passes) << block;
    EXPECT_LT(error(ours.sum, exact.sum), tolerance::float_passes) << block;
    const BlockMatrix Q = random_blocks(n, block, 5);
    const Tensor a = cpu_passes().input_gradient(g, x,
                                                 {dense, Q, center, offset, Sums::in_type, 1.0}),
                 b = aten_passes().input_gradient(dg, dx,
                                                  {dense, Q, center, offset, Sums::in_type, 1.0});
    EXPECT_EQ(a.scalar_type(), torch::kFloat);
    EXPECT_LT(test::relative_error(a, b), tolerance::float_passes) << block;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, NetSize,
                         testing::Values(Shape{"images", {256, 10, 32, 32}, false},
                                         Shape{"images_last", {256, 10, 32, 32}, true},
                                         Shape{"large_images", {4, 10, 256, 256}, false}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Moments, AHugeMeanDoesNotSpoilTheCovariance) {
  const Tensor x = test::correlated({64, 8, 6, 6}, 1) - 1.0;
  const Statistics plain = cpu_passes().moments(x, 8);
  for (double mean : {1e4, 1e8}) {
    const Statistics shifted = cpu_passes().moments(x + mean, 8);
    EXPECT_LT(error(shifted.covariance.values(), plain.covariance.values()), mean * 1e-14);
  }
  const Tensor f = (x + 1e4).to(torch::kFloat);
  EXPECT_LT(error(cpu_passes().moments(f, 8).covariance.values(),
                  cpu_passes().moments(f.to(torch::kDouble), 8).covariance.values()),
            1e-12);
}

TEST(Moments, AConstantChannelHasNoVarianceAtAll) {
  for (torch::Dtype type : {torch::kFloat, torch::kDouble}) {
    Tensor x = test::correlated({64, 3, 6, 6}, 1, type);
    x.select(1, 1).fill_(0.1);
    const Statistics m = cpu_passes().moments(x, 3);
    for (int64_t c : {0, 1, 2}) EXPECT_EQ(m.covariance.data(0)[3 + c], 0.0);
    EXPECT_NEAR(m.mean[1], 0.1, 1e-8);
  }
}

TEST(Layout, OddStridesAreMadeDense) {
  const Tensor base = test::correlated({6, 10, 9, 11}, 1);
  for (const Tensor& view :
       {base.slice(1, 1, 8), base.slice(2, 0, 9, 2), base.transpose(2, 3),
        base.flip(3).slice(3, 2, 9), base.select(0, 0).unsqueeze(0).expand({6, 10, 9, 11})}) {
    const Tensor dense = dense_layout(view);
    EXPECT_TRUE(dense.equal(view));
    const Statistics a = cpu_passes().moments(dense, view.size(1)),
                     b = aten_passes().moments(view, view.size(1));
    EXPECT_LT(error(a.covariance.values(), b.covariance.values()), tolerance::passes);
  }
  EXPECT_EQ(dense_layout(base).data_ptr(), base.data_ptr());
}

}  // namespace
}  // namespace orthobatch
