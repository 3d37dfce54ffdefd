// What must be refused is refused with a line that names the layer, and nothing is changed by it;
// what is only unusual works.

#include "ops/torch_versions.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using test::expect_says;
using test::message_of;
using torch::Tensor;

/// Every buffer, to compare afterwards.
std::vector<Tensor> buffers_of(const torch::nn::Module& m) {
  std::vector<Tensor> out;
  for (const Tensor& b : m.buffers()) out.push_back(b.clone());
  return out;
}

TEST(BadInput, WrongRank) {
  expect_says(message_of([] {
                BatchOrtho2d(4, "ZCA")->forward(torch::randn({3, 4}));
              }),
              {"BatchOrtho2d(4, \"ZCA(1e-5)\")", "expected 4D input (got 2D input)"});
  expect_says(message_of([] {
                BatchOrtho1d(4, "ZCA")->forward(torch::randn({3, 4, 5, 6}));
              }),
              {"expected 2D or 3D input (got 4D input)"});
  expect_says(message_of([] {
                BatchOrtho3d(4, "BN")->forward(torch::randn({3, 4, 5, 6}));
              }),
              {"expected 5D input (got 4D input)"});
  EXPECT_THROW(BatchOrtho2d(4, "BN")->forward(torch::randn({})), c10::Error);
}

TEST(BadInput, WrongChannels) {
  expect_says(message_of([] {
                BatchOrtho2d(4, "LDL")->forward(torch::randn({3, 5, 2, 2}));
              }),
              {"expected 4 channels", "[3, 5, 2, 2]"});
}

TEST(BadInput, WrongType) {
  expect_says(message_of([] {
                BatchOrtho1d(4, "ZCA")->forward(torch::ones({3, 4}, torch::kLong));
              }),
              {"expected input of type float, double, half or bfloat16", "Long"});
  expect_says(message_of([] {
                BatchOrtho1d layer(4, "ZCA");
                layer->to(torch::kDouble);
                layer->forward(torch::ones({3, 4}, torch::kHalf));
              }),
              {"expected input of the layer's type Double", "got Half"});
  expect_says(message_of([] {
                BatchOrtho1d(4, "ZCA")->forward(torch::randn({3, 4}, torch::kDouble));
              }),
              {"expected input of the layer's type Float", "got Double"});
}

TEST(BadInput, OneSampleInTrainingButNotInEvaluation) {
  for (const char* spec : {"BN", "ZCA", "LDL"}) {
    BatchOrtho2d layer(4, spec);
    expect_says(message_of([&] {
                  layer->forward(torch::randn({1, 4, 1, 1}));
                }),
                {"Expected more than 1 value per channel when training"});
    EXPECT_EQ(layer->forward(torch::randn({0, 4, 3, 3})).numel(), 0) << "as torch does";
    EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 0);
    layer->eval();
    EXPECT_EQ(layer->forward(torch::randn({1, 4, 1, 1})).sizes(),
              (std::vector<int64_t>{1, 4, 1, 1}));
    EXPECT_EQ(layer->forward(torch::randn({0, 4, 3, 3})).numel(), 0);
  }
}

TEST(BadInput, OneSampleIsRefusedInEvaluationWithoutRunningStatistics) {
  BatchOrtho1d layer(BatchOrthoOptions(4, "ZCA").track_running_stats(false));
  layer->eval();
  EXPECT_THROW(layer->forward(torch::randn({1, 4})), c10::Error);
}

class NotFinite : public testing::TestWithParam<std::string> {};

TEST_P(NotFinite, IsRefusedAndChangesNothing) {
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (bool last : {false, true}) {
      BatchOrtho2d layer(BatchOrthoOptions(6, GetParam()).name("block1.norm"));
      layer->forward(test::correlated({4, 6, 5, 5}, 1, torch::kFloat));
      const std::vector<Tensor> before = buffers_of(*layer);
      Tensor x = test::correlated({4, 6, 5, 5}, 2, torch::kFloat);
      x[2][3][1][4] = bad;
      if (last) x = x.contiguous(torch::MemoryFormat::ChannelsLast);
      expect_says(message_of([&] { layer->forward(x); }),
                  {"BatchOrtho2d(6, ", "'block1.norm'", "expected finite input", "at [2, 3, 1, 4]",
                   "running statistics are unchanged"});
      const std::vector<Tensor> after = buffers_of(*layer);
      for (size_t k = 0; k < before.size(); ++k) EXPECT_TRUE(before[k].equal(after[k]));
    }
}

INSTANTIATE_TEST_SUITE_P(Specs, NotFinite, testing::ValuesIn(test::svhn_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

TEST(BadInput, OverflowOfTheVarianceIsNamed) {
  BatchOrtho1d layer(3, "ZCA");
  layer->to(torch::kDouble);
  expect_says(message_of([&] {
                layer->forward(1e200 * torch::randn({20, 3}, torch::kDouble));
              }),
              {"whose variance fits"});
}

TEST(BadInput, AVarianceThatFloatCannotHoldStaysOutOfTheRunningOne) {
  BatchOrtho1d layer(3, "BN");
  expect_says(message_of([&] {
                layer->forward(1e20 * torch::randn({20, 3}));
              }),
              {"whose variance fits the statistics", "unchanged"});
  EXPECT_TRUE(layer->running_var.equal(torch::ones({3})));
}

TEST(BadInput, SparseTensorsAndAbsurdChannelCounts) {
  expect_says(message_of([] {
                BatchOrtho1d(3, "BN")->forward(torch::ones({4, 3}).to_sparse());
              }),
              {"BatchOrtho1d(3", "expected a dense tensor"});
  expect_says(message_of([] { BatchOrtho1d(4000000000, "ZCA"); }),
              {"expected 1 to 65536 channels"});
}

TEST(BadInput, LargeFloatsAreFine) {
  BatchOrtho1d layer(3, "ZCA");  // 1e25² overflows float; the statistics are double
  const Tensor z = layer->forward(1e25 * test::correlated({50, 3}, 1, torch::kFloat));
  EXPECT_TRUE(test::is_finite(z));
  EXPECT_LT(whiteness_error(z), 1e-4);
}

TEST(BadInput, PoisonedRunningStatisticsAreNotUsed) {
  BatchOrtho1d layer(3, "ZCA");
  layer->running_cov[0][0] = std::nan("");
  layer->eval();
  expect_says(message_of([&] {
                layer->forward(torch::randn({4, 3}));
              }),
              {"expected finite running statistics"});
}

TEST(BadInput, BadOptions) {
  expect_says(message_of([] { BatchOrtho1d(0, "ZCA"); }), {"expected 1 to 65536 channels, got 0"});
  expect_says(message_of([] { BatchOrtho1d(BatchOrthoOptions(3).momentum(1.5)); }),
              {"expected a momentum from 0 to 1, got 1.5"});
  EXPECT_THROW(BatchOrtho1d(3, "ZCB"), SpecError);
  expect_says(
      message_of([] {
        BatchOrtho1d(
            BatchOrthoOptions(3, "ZCA_spectral").running_average(RunningAverage::transform));
      }),
      {"ZCA_spectral has its scale inside"});
}

TEST(BadInput, ASecondDerivativeIsRefusedNotInvented) {
  BatchOrtho1d layer(4, "ZCA");
  Tensor x = test::correlated({20, 4}, 1, torch::kFloat).requires_grad_();
  const Tensor first = torch::autograd::grad({layer->forward(x).pow(3).sum()}, {x}, {}, true,
                                             /*create_graph=*/true)[0];
  EXPECT_TRUE(test::is_finite(first));
  expect_says(message_of([&] { first.sum().backward(); }),
              {"BatchOrtho1d(4", "differentiated once"});
}

TEST(BadInput, ASecondDerivativeWithAllowUnusedIsRefusedToo) {
  BatchOrtho1d layer(4, "ZCA");
  Tensor x = test::correlated({20, 4}, 1, torch::kFloat).requires_grad_();
  const Tensor g = torch::ones({20, 4}).requires_grad_();
  const auto first = torch::autograd::grad({layer->forward(x)}, {x, layer->weight}, {g}, true,
                                           /*create_graph=*/true);
  for (const Tensor& of : first)
    for (const Tensor& with_respect_to : {x, g, layer->weight})
      expect_says(message_of([&] {
                    torch::autograd::grad({of.sum()}, {with_respect_to}, {}, true, false,
                                          /*allow_unused=*/true);
                  }),
                  {"BatchOrtho1d(4", "differentiated once"});
}

// Singular covariances are no error: dead and duplicated channels, too few samples, no variance at
// all.
TEST(Singular, GivesFiniteOutputAndGradient) {
  for (std::string spec : {"BN(0)",
                           "ZCA(0)",
                           "LDL(0)",
                           "PCA(0,inf)",
                           "PLDLP(0)",
                           "ZCAE(0)",
                           "ZCAM(0)",
                           "ZCA_corr(0)",
                           "LDL_corr(0)",
                           "ZCA_spectral(0,inf)",
                           "IterNorm(0)",
                           "ZCA(1e-5)",
                           "LDL(1e-5)",
                           "PLDLP(1e-5)",
                           "PCA(1e-5)",
                           "ZCA(0)->W->Gamma",
                           "LDL(0,gradient=paper)",
                           "PLDLP(0,gradient=paper)",
                           "ZCA(0,inf,gradient=paper)",
                           "ZCAE(0,inf,gradient=paper)"})
    for (torch::Dtype type : {torch::kFloat, torch::kDouble}) {
      Tensor dead = test::correlated({8, 6, 4, 4}, 1, type);
      dead.select(1, 2).zero_();
      dead.select(1, 5).fill_(0.3);
      Tensor twice = test::correlated({8, 6, 4, 4}, 1, type);
      twice.select(1, 4).copy_(twice.select(1, 1));
      const Tensor few = test::correlated({3, 6, 1, 1}, 1, type),
                   none = torch::full({4, 6, 2, 2}, 0.7, type);
      for (const Tensor& data : {dead, twice, few, none}) {
        BatchOrtho2d layer(6, spec);
        layer->to(type);
        Tensor x = data.clone().requires_grad_();
        const Tensor z = layer->forward(x);
        (z * torch::randn_like(z)).sum().backward();
        EXPECT_TRUE(test::is_finite(z)) << spec;
        EXPECT_TRUE(test::is_finite(x.grad())) << spec;
        EXPECT_LT(z.abs().max().item<double>(), 1e4) << spec;
        for (const Tensor& p : layer->parameters()) EXPECT_TRUE(test::is_finite(p.grad())) << spec;
        layer->eval();
        EXPECT_TRUE(test::is_finite(layer->forward(data))) << spec;
      }
    }
}

TEST(Singular, IsWarnedOfOnceAndCounted) {
  struct Counter : WarningHandler {
    int count = 0;
    std::string last;
    void take(const std::string& message) override {
      ++count;
      last = message;
    }
  } counter;
  const WarningGuard guard(&counter);
  BatchOrtho2d layer(6, "ZCA(0)");
  Tensor x = test::correlated({8, 6, 4, 4}, 1, torch::kFloat);
  x.select(1, 2).zero_();
  for (int k = 0; k < 3; ++k) layer->forward(x);
  EXPECT_EQ(counter.count, 1);
  EXPECT_NE(counter.last.find("1 of 6 directions have no variance"), std::string::npos)
      << counter.last;
  EXPECT_EQ(layer->last_batch().null, 1);
}

}  // namespace
}  // namespace orthobatch
