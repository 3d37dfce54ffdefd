// Float input against the same input in double: outputs and gradients.

#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;

struct Passed {
  Tensor z, dx;
  std::vector<Tensor> parameters;
};

Passed pass(const std::string& spec, const Tensor& data, const Tensor& G, torch::Dtype type) {
  BatchOrtho2d layer(data.size(1), spec);
  layer->to(torch::kDouble);
  test::randomize_parameters(layer, 5);
  // Both layers hold the float values, so that only the arithmetic differs.
  layer->to(torch::kFloat);
  layer->to(type);
  Tensor x = data.detach().to(type, false, /*copy=*/true).requires_grad_();
  const Tensor z = layer->forward(x);
  (z * G.to(type)).sum().backward();
  Passed out{z.detach(), x.grad(), {}};
  for (const Tensor& p : layer->parameters()) out.parameters.push_back(p.grad());
  return out;
}

void expect_close(const std::string& spec, const Tensor& x, const char* what) {
  const Tensor G = test::correlated(x.sizes(), 9, torch::kFloat) - 1.0;
  const Passed f = pass(spec, x, G, torch::kFloat), d = pass(spec, x, G, torch::kDouble);
  EXPECT_LT(test::relative_error(f.z, d.z), tolerance::float_against_double) << what;
  EXPECT_LT(test::relative_error(f.dx, d.dx), tolerance::float_against_double) << what;
  for (size_t k = 0; k < f.parameters.size(); ++k)
    EXPECT_LT(test::relative_error(f.parameters[k], d.parameters[k]),
              tolerance::float_against_double)
        << what << ", parameter " << k;
}

class Float : public testing::TestWithParam<std::string> {};

TEST_P(Float, AgreesWithDouble) {
  for (bool last : {false, true}) {
    const auto layout = [&](const Tensor& t) {
      return last ? t.contiguous(torch::MemoryFormat::ChannelsLast) : t;
    };
    const Tensor x = test::correlated({32, 12, 7, 7}, 1, torch::kFloat);
    expect_close(GetParam(), layout(x), "plain");
    const Tensor mean = 1e4 * torch::linspace(-1, 1, 12).view({1, 12, 1, 1});
    expect_close(GetParam(), layout(x + mean), "mean of 1e4 deviations");
  }
}

// Duplicated channels tie for a pivot, and with ε = 0 their difference is null: then there is no
// gradient to agree on, and rounding decides which of two one-sided values is returned.
TEST_P(Float, AgreesWithDoubleOnDuplicatedChannels) {
  const LayerSpec spec = GetParam();
  const bool ties = spec.method() == "PLDLP" && spec.value("complete") != 0;
  if (ties || spec.value("eps") < 1e-5) GTEST_SKIP() << "no gradient there";
  for (uint64_t seed = 1; seed <= 5; ++seed)
    for (const auto& shape : {std::vector<int64_t>{32, 12, 7, 7}, {64, 6, 1, 1}}) {
      Tensor x = test::correlated(shape, seed, torch::kFloat);
      x.select(1, shape[1] - 1).copy_(x.select(1, 0));
      expect_close(GetParam(), x, "duplicated");
      expect_close(GetParam(), x.contiguous(torch::MemoryFormat::ChannelsLast),
                   "duplicated, channels last");
    }
}

// Channels that differ by a part in 4 … 1000: terms cancel more and more, on both sides of where
// the sums go over to double.
TEST_P(Float, AgreesWithDoubleOnNearlyEqualChannels) {
  const auto noise = test::correlated({32, 12, 7, 7}, 77, torch::kFloat).select(1, 3);
  for (double part : {0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001}) {
    Tensor x = test::correlated({32, 12, 7, 7}, 3, torch::kFloat);
    x.select(1, 11).copy_(x.select(1, 0) + part * noise);
    expect_close(GetParam(), x, ("differing by " + std::to_string(part)).c_str());
  }
}

// Q X + r must not be the rounding of what cancels there, however large the constant is.
TEST_P(Float, AgreesWithDoubleBesideAConstantChannel) {
  for (const double constant : {1.1e5, 3.3e8, 1e25}) {
    Tensor x = test::correlated({16, 6, 5, 5}, 2, torch::kFloat);
    x.select(1, 3).fill_(constant);
    const Tensor G = test::correlated(x.sizes(), 9, torch::kFloat);
    const Passed f = pass(GetParam(), x, G, torch::kFloat),
                 d = pass(GetParam(), x, G, torch::kDouble);
    EXPECT_LT(test::relative_error(f.z, d.z), 1e-4) << constant;
    EXPECT_LT(test::relative_error(f.dx, d.dx), 1e-4) << constant;
  }
}

// Q goes with 1/σ²: 1e-50 or 1e50 here, outside float's range.
TEST(FloatRange, VeryLargeAndVerySmallDataKeepTheirGradient) {
  for (const char* spec : {"BN(0)", "ZCA(0)", "LDL(0)", "PLDLP(0)", "ZCA(0)->W->Gamma"})
    for (double scale : {1e18, 1e-25, 1e-18})
      expect_close(spec, scale * test::correlated({64, 6, 3, 3}, 1, torch::kFloat), spec);
  for (const char* spec : {"ZCA(0)", "LDL(0)", "PLDLP(0)"})
    expect_close(spec, 1e25 * test::correlated({64, 6, 3, 3}, 1, torch::kFloat), spec);
}

// Below 1e-38 floats lose their digits, and 1/σ does not fit: such channels have no variance.
TEST_P(Float, DataAtTheEndsOfTheRangeStayFinite) {
  for (const double scale : {1e-34, 1e-36, 1e-37, 1e-38, 1e-39, 1e-41, 1e-45}) {
    const Tensor plain = test::correlated({64, 6, 3, 3}, 1, torch::kFloat);
    for (const bool mixed : {false, true}) {
      Tensor x = (mixed ? plain * torch::tensor({1.0, scale, scale, scale, 1.0, scale})
                                      .to(torch::kFloat)
                                      .view({1, 6, 1, 1})
                        : plain * scale)
                     .contiguous()
                     .requires_grad_();
      BatchOrtho2d layer(6, LayerSpec(GetParam()));
      const Tensor z = layer->forward(x);
      (z * test::correlated({64, 6, 3, 3}, 2, torch::kFloat)).sum().backward();
      EXPECT_TRUE(z.isfinite().all().item<bool>()) << scale << " " << mixed;
      EXPECT_TRUE(x.grad().isfinite().all().item<bool>()) << scale << " " << mixed;
      for (const auto& p : layer->named_parameters())
        EXPECT_TRUE(p.value().grad().isfinite().all().item<bool>()) << scale << " " << p.key();
      for (const auto& b : layer->named_buffers())
        EXPECT_TRUE(b.value().isfinite().all().item<bool>()) << scale << " " << b.key();
      layer->eval();
      EXPECT_TRUE(layer->forward(x).isfinite().all().item<bool>()) << scale << " " << mixed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Float, testing::ValuesIn(test::all_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

}  // namespace
}  // namespace orthobatch
