// The modules as torch users know modules: against BatchNorm, in evaluation, saved, cloned,
// converted.

#include <algorithm>
#include <sstream>
#include <thread>

#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;

TEST(BatchNorm, TrainingRunningStatisticsAndEvaluationAgreeWithTorch) {
  for (bool last : {false, true})
    for (c10::optional<double> momentum :
         {c10::optional<double>(0.1), c10::optional<double>(0.37), c10::optional<double>()})
      for (bool affine : {true, false}) {
        torch::nn::BatchNorm2d theirs(
            torch::nn::BatchNorm2dOptions(5).momentum(momentum).affine(affine));
        BatchOrtho2d ours(BatchOrthoOptions(5, "BN").momentum(momentum).affine(affine));
        test::randomize_parameters(theirs, 3);
        test::randomize_parameters(ours, 3);
        for (uint64_t step = 0; step < 4; ++step) {
          Tensor data = test::correlated({7, 5, 6, 4}, step, torch::kFloat);
          if (last) data = data.contiguous(torch::MemoryFormat::ChannelsLast);
          Tensor a = data.clone().requires_grad_(), b = data.clone().requires_grad_();
          const Tensor G = test::correlated({7, 5, 6, 4}, step + 50, torch::kFloat);
          const Tensor za = theirs->forward(a), zb = ours->forward(b);
          (za * G).sum().backward();
          (zb * G).sum().backward();
          EXPECT_TRUE(torch::allclose(zb, za, tolerance::batch_norm, tolerance::batch_norm));
          EXPECT_TRUE(
              torch::allclose(b.grad(), a.grad(), tolerance::batch_norm, tolerance::batch_norm));
          EXPECT_TRUE(torch::allclose(ours->running_mean, theirs->running_mean,
                                      tolerance::batch_norm, tolerance::batch_norm));
          EXPECT_TRUE(torch::allclose(ours->running_var, theirs->running_var, tolerance::batch_norm,
                                      tolerance::batch_norm));
          EXPECT_EQ(ours->num_batches_tracked.item<int64_t>(),
                    theirs->num_batches_tracked.item<int64_t>());
        }
        if (affine) {
          EXPECT_TRUE(torch::allclose(ours->weight.grad(), theirs->weight.grad(), 1e-4, 1e-3));
          EXPECT_TRUE(torch::allclose(ours->bias.grad(), theirs->bias.grad(), 1e-4, 1e-3));
        }
        ours->eval();
        theirs->eval();
        Tensor a = test::correlated({7, 5, 6, 4}, 99, torch::kFloat).requires_grad_();
        Tensor b = a.detach().clone().requires_grad_();
        const Tensor za = theirs->forward(a), zb = ours->forward(b);
        EXPECT_TRUE(torch::allclose(zb, za, tolerance::batch_norm, tolerance::batch_norm));
        za.square().sum().backward();
        zb.square().sum().backward();
        EXPECT_TRUE(torch::allclose(b.grad(), a.grad(), 1e-4, 1e-4));
      }
}

TEST(BatchNorm, ACheckpointOfTorchsLoads) {
  const auto with = [](auto theirs, auto ours, const Tensor& x) {
    test::randomize_parameters(theirs, 3);
    for (int step = 0; step < 3; ++step) theirs->forward(x * (step + 1) - step);
    std::stringstream stream;
    torch::save(theirs, stream);
    torch::load(ours, stream);
    theirs->eval();
    ours->eval();
    EXPECT_TRUE(torch::allclose(ours->forward(x), theirs->forward(x), tolerance::batch_norm,
                                tolerance::batch_norm));
    EXPECT_EQ(ours->num_batches_tracked.template item<int64_t>(), 3);
    theirs->train();
    ours->train();
    EXPECT_TRUE(torch::allclose(ours->forward(x), theirs->forward(x), tolerance::batch_norm,
                                tolerance::batch_norm));
    EXPECT_TRUE(torch::allclose(ours->running_var, theirs->running_var, tolerance::batch_norm,
                                tolerance::batch_norm));
  };
  namespace nn = torch::nn;
  const Tensor flat = test::correlated({30, 5}, 1, torch::kFloat);
  with(nn::BatchNorm1d(5), BatchOrtho1d(5, "BN"), flat);
  with(nn::BatchNorm2d(5), BatchOrtho2d(5, "BN"), flat.view({6, 5, 5, 1}));
  with(nn::BatchNorm2d(nn::BatchNorm2dOptions(5).affine(false)),
       BatchOrtho2d(BatchOrthoOptions(5, "BN").affine(false)), flat.view({6, 5, 5, 1}));
  with(nn::BatchNorm3d(5), BatchOrtho3d(5, "BN"), flat.view({6, 5, 5, 1, 1}));
}

TEST(BatchNorm, WithoutRunningStatisticsEvaluationUsesTheBatch) {
  torch::nn::BatchNorm1d theirs(torch::nn::BatchNorm1dOptions(5).track_running_stats(false));
  BatchOrtho1d ours(BatchOrthoOptions(5, "BN").track_running_stats(false));
  const Tensor x = test::correlated({9, 5}, 1, torch::kFloat);
  theirs->eval();
  ours->eval();
  EXPECT_TRUE(torch::allclose(ours->forward(x), theirs->forward(x), 1e-5, 1e-5));
  EXPECT_FALSE(ours->running_mean.defined());
  EXPECT_TRUE(ours->buffers().empty());
}

class Modules : public testing::TestWithParam<std::string> {
 protected:
  BatchOrtho2d trained(uint64_t seed = 1) const {
    BatchOrtho2d layer(6, GetParam());
    test::randomize_parameters(layer, seed);
    for (uint64_t k = 0; k < 3; ++k)
      layer->forward(test::correlated({8, 6, 5, 5}, seed + k, torch::kFloat));
    return layer;
  }
  Tensor x = test::correlated({8, 6, 5, 5}, 40, torch::kFloat);
};

TEST_P(Modules, EvaluationOnTheLastBatchIsTrainingOnIt) {
  // With momentum 1 the running statistics are the batch's own.
  BatchOrtho2d layer(BatchOrthoOptions(6, GetParam()).momentum(1));
  layer->to(torch::kDouble);
  test::randomize_parameters(layer, 1);
  const Tensor data = test::correlated({8, 6, 5, 5}, 3);
  const Tensor z = layer->forward(data);
  if (layer->running_var.defined())
    layer->running_var.mul_(199.0 / 200);  // torch's unbiased estimate
  layer->eval();
  EXPECT_LT(test::relative_error(layer->forward(data), z), 1e-9);
}

TEST_P(Modules, SavedAndLoadedIsTheSame) {
  BatchOrtho2d layer = trained(), other(6, GetParam());
  std::stringstream stream;
  torch::save(layer, stream);
  other->eval();
  other->forward(x);  // a fold that loading must make stale
  torch::load(other, stream);
  layer->eval();
  EXPECT_TRUE(other->forward(x).equal(layer->forward(x)));
  layer->train();
  other->train();
  EXPECT_TRUE(other->forward(x).equal(layer->forward(x)));
  EXPECT_EQ(other->num_batches_tracked.item<int64_t>(), 4);
}

TEST_P(Modules, ACloneIsEqualAndItsOwn) {
  BatchOrtho2d layer = trained();
  layer->eval();
  const Tensor z = layer->forward(x);
  auto copy = std::dynamic_pointer_cast<BatchOrtho2dImpl>(layer->clone());
  ASSERT_TRUE(copy);
  EXPECT_TRUE(copy->forward(x).equal(z));
  copy->train();
  copy->forward(2 * x);
  copy->eval();
  EXPECT_FALSE(copy->forward(x).equal(z));
  EXPECT_TRUE(layer->forward(x).equal(z)) << "the original is untouched";
}

TEST_P(Modules, ConvertsToDoubleAndBack) {
  BatchOrtho2d layer = trained();
  layer->eval();
  const Tensor z = layer->forward(x);
  const Tensor cov = layer->running_cov.defined() ? layer->running_cov.clone() : Tensor();
  layer->to(torch::kDouble);
  EXPECT_EQ(layer->running_mean.scalar_type(), torch::kDouble);
  const Tensor zd = layer->forward(x.to(torch::kDouble));
  EXPECT_EQ(zd.scalar_type(), torch::kDouble);
  EXPECT_LT(test::relative_error(z, zd), 1e-5);
  layer->to(torch::kFloat);
  EXPECT_TRUE(layer->forward(x).equal(z));
  EXPECT_EQ(layer->num_batches_tracked.scalar_type(), torch::kLong);
  if (cov.defined()) {
    EXPECT_TRUE(layer->running_cov.equal(cov)) << "the covariance stays double";
  }
}

TEST_P(Modules, TwoBackwardPassesThroughARetainedGraph) {
  BatchOrtho2d layer = trained();
  Tensor input = x.clone().requires_grad_();
  const Tensor loss = layer->forward(input).pow(3).sum();
  loss.backward({}, /*retain_graph=*/true);
  const Tensor once = input.grad().clone();
  loss.backward();
  EXPECT_TRUE(torch::allclose(input.grad(), 2 * once));
}

TEST_P(Modules, EveryLayoutGivesTheSame) {
  const Tensor wide = test::correlated({8, 6, 5, 10}, 7);
  const Tensor plain = wide.slice(3, 0, 10, 2).contiguous();
  const Tensor G = test::correlated({8, 6, 5, 5}, 8);
  const auto pass = [&](const Tensor& data, const Tensor& g) {
    BatchOrtho2d layer(6, GetParam());
    layer->to(torch::kDouble);
    test::randomize_parameters(layer, 2);
    Tensor leaf = data.detach().requires_grad_();
    const Tensor z = layer->forward(leaf);
    z.backward(g);
    return std::make_pair(z.detach(), leaf.grad());
  };
  const auto [z, dx] = pass(plain, G);
  const auto last = torch::MemoryFormat::ChannelsLast;
  for (const auto& [data, g] : {std::pair{plain.contiguous(last), G},
                                {plain.contiguous(last), G.contiguous(last)},
                                {plain, G.contiguous(last)},
                                {wide.slice(3, 0, 10, 2), G}}) {
    const auto [z2, dx2] = pass(data, g);
    EXPECT_LT(test::relative_error(z2, z), 1e-11);
    EXPECT_LT(test::relative_error(dx2, dx), 1e-9);
  }
  const Tensor cl = pass(plain.contiguous(last), G).first;
  EXPECT_TRUE(cl.is_contiguous(last));
}

TEST_P(Modules, EvaluationHasGradients) {
  BatchOrtho2d layer = trained();
  layer->to(torch::kDouble);
  layer->eval();
  Tensor input = x.to(torch::kDouble).requires_grad_();
  const Tensor G = test::correlated({8, 6, 5, 5}, 8);
  (layer->forward(input) * G).sum().backward();
  // Linear in x, γ and b: differences are exact but for rounding. S by central differences.
  const auto loss = [&] {
    torch::NoGradGuard no_grad;
    return (layer->forward(input) * G).sum().item<double>();
  };
  const auto slope = [&](Tensor t, int64_t k, double h) {
    torch::NoGradGuard no_grad;
    const Tensor entry = t.view(-1).select(0, k);
    const double at = entry.item<double>();
    entry.fill_(at + h);
    const double ahead = loss();
    entry.fill_(at - h);
    const double behind = loss();
    entry.fill_(at);
    return (ahead - behind) / (2 * h);
  };
  for (const Tensor& t : {input, layer->weight, layer->bias, layer->skew}) {
    if (!t.defined()) continue;
    ASSERT_TRUE(t.grad().defined());
    for (int64_t k : {0, 1, 4}) {
      const double expected = slope(t, k, 1e-4), got = t.grad().view(-1)[k].item<double>();
      EXPECT_NEAR(got, expected, 1e-6 * std::max(1.0, std::abs(expected)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Modules, testing::ValuesIn(test::all_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

TEST(Members, AreThoseTheSpecHas) {
  BatchOrtho1d bn(4, "BN"), zca(4, "ZCA"), w(4, "ZCA->W"), wg(4, "ZCA->W->Gamma");
  EXPECT_TRUE(bn->running_var.defined());
  EXPECT_FALSE(bn->running_cov.defined());
  EXPECT_FALSE(zca->running_var.defined());
  EXPECT_EQ(zca->running_cov.sizes(), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(zca->running_cov.scalar_type(), torch::kDouble);
  EXPECT_FALSE(zca->skew.defined());
  EXPECT_FALSE(w->weight.defined());
  EXPECT_TRUE(w->bias.defined());
  EXPECT_EQ(w->skew.numel(), 6);
  EXPECT_TRUE(wg->weight.defined());
  EXPECT_EQ(wg->named_parameters().size(), 3u);
  BatchOrtho1d bare(BatchOrthoOptions(4, "ZCA->W->Gamma").affine(false));
  EXPECT_EQ(bare->named_parameters().keys(), std::vector<std::string>{"skew"});
}

TEST(Options, AreSetByName) {
  BatchOrtho2d layer(BatchOrthoOptions(8).spec("LDL(1e-3)->W").momentum(c10::nullopt).name("n"));
  EXPECT_EQ(layer->description(), "BatchOrtho2d(8, \"LDL(0.001)->W\") 'n'");
  EXPECT_EQ(BatchOrtho2d(8)->options.spec(), parse(default_spec));
  EXPECT_EQ(BatchOrtho3d(8, LayerSpec("BN"))->options.num_features(), 8);
}

TEST(RunningStatistics, AverageTheConditionedCovariance) {
  BatchOrtho1d layer(BatchOrthoOptions(4, "ZCAM(0.01,c=1/2)").momentum(0.25));
  layer->to(torch::kDouble);
  const Tensor x = test::correlated({50, 4}, 1);
  layer->forward(x);
  const auto [lambda, U] = torch::linalg_eigh(covariance(x) + 0.01 * torch::eye(4, torch::kDouble));
  const Tensor floored = torch::maximum(lambda, 0.5 * lambda[3]);
  const Tensor expected = 0.75 * torch::eye(4, torch::kDouble) + 0.25 * (U * floored).mm(U.t());
  EXPECT_LT(test::relative_error(layer->running_cov, expected), 1e-12);
  EXPECT_LT(test::relative_error(layer->running_mean, 0.25 * x.mean(0)), 1e-12);
}

TEST(RunningStatistics, CumulativeAverageWithoutMomentum) {
  BatchOrtho1d layer(BatchOrthoOptions(4, "LDL(0)").momentum(c10::nullopt));
  layer->to(torch::kDouble);
  Tensor sum = torch::zeros({4, 4}, torch::kDouble);
  for (uint64_t k = 1; k <= 5; ++k) {
    const Tensor x = test::correlated({50, 4}, k);
    layer->forward(x);
    sum += covariance(x);
    EXPECT_LT(test::relative_error(layer->running_cov, sum / static_cast<double>(k)), 1e-12);
  }
}

TEST(RunningStatistics, TheTransformMayBeAveragedInstead) {
  for (const char* spec : {"ZCA(1e-5)", "BN", "LDL(1e-5)->W"}) {
    BatchOrtho1d layer(
        BatchOrthoOptions(4, spec).momentum(1).running_average(RunningAverage::transform));
    layer->to(torch::kDouble);
    test::randomize_parameters(layer, 1);
    const Tensor x = test::correlated({50, 4}, 1), z = layer->forward(x);
    EXPECT_FALSE(layer->running_cov.defined());
    layer->eval();
    EXPECT_LT(test::relative_error(layer->forward(x), z), 1e-12) << spec;
  }
}

TEST(RunningStatistics, ResetStartsOver) {
  BatchOrtho1d layer(4, "ZCA");
  layer->forward(test::correlated({50, 4}, 1, torch::kFloat));
  layer->reset_running_stats();
  EXPECT_TRUE(layer->running_cov.equal(torch::eye(4, torch::kDouble)));
  EXPECT_EQ(layer->running_mean.abs().sum().item<double>(), 0);
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 0);
}

TEST(Evaluation, NoticesEveryChange) {
  BatchOrtho1d layer(4, "ZCA(1e-5)->W->Gamma");
  layer->eval();
  const Tensor x = test::correlated({5, 4}, 1, torch::kFloat);
  Tensor z = layer->forward(x);
  const auto expect_change = [&](const char* what) {
    const Tensor now = layer->forward(x);
    EXPECT_FALSE(now.equal(z)) << what;
    EXPECT_TRUE(layer->forward(x).equal(now)) << what;
    z = now;
  };
  torch::NoGradGuard no_grad;
  layer->weight.mul_(2);
  expect_change("weight");
  layer->bias.add_(1);
  expect_change("bias");
  layer->skew.add_(0.1);
  expect_change("skew");
  layer->running_mean.add_(1);
  expect_change("running_mean");
  layer->running_cov.mul_(3);
  expect_change("running_cov");
  layer->running_cov.data_ptr<double>()[0] += 1;  // behind torch's back
  expect_change("memory");
  layer->weight.set_data(torch::full({4}, 5.0f));
  expect_change("set_data");
}

TEST(Evaluation, ManyThreadsMayShareALayer) {
  BatchOrtho1d layer(16, "ZCA(1e-5)");
  layer->forward(test::correlated({100, 16}, 1, torch::kFloat));
  layer->eval();
  const Tensor x = test::correlated({100, 16}, 2, torch::kFloat), expected = layer->forward(x);
  layer->running_cov.mul_(1);
  std::vector<std::thread> threads;
  std::atomic<int> equal{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      torch::NoGradGuard no_grad;
      for (int k = 0; k < 20; ++k) equal += layer->forward(x).equal(expected);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(equal, 160);
}

TEST(Frozen, ParametersAndInputsWithoutGradientGetNone) {
  BatchOrtho1d layer(4, "ZCA->W->Gamma");
  layer->weight.set_requires_grad(false);
  const Tensor x = test::correlated({30, 4}, 1, torch::kFloat);
  layer->forward(x).pow(3).sum().backward();
  EXPECT_FALSE(layer->weight.grad().defined());
  EXPECT_TRUE(layer->bias.grad().defined());
  EXPECT_TRUE(layer->skew.grad().defined());
  {
    torch::NoGradGuard no_grad;
    EXPECT_FALSE(layer->forward(x).requires_grad());
  }
  layer->eval();
  for (Tensor& p : layer->parameters()) p.set_requires_grad(false);
  Tensor input = x.clone().requires_grad_();
  layer->forward(input).sum().backward();
  EXPECT_TRUE(test::is_finite(input.grad()));
}

TEST(Sequential, HoldsLayersOfEveryRank) {
  torch::nn::Sequential net(BatchOrtho3d(3, "ZCA(1e-5)"), torch::nn::Conv3d(3, 4, 2),
                            torch::nn::Flatten(torch::nn::FlattenOptions().start_dim(2)),
                            BatchOrtho1d(4, "LDL(1e-5)"), torch::nn::AdaptiveAvgPool1d(1),
                            torch::nn::Flatten(), BatchOrtho1d(4, "BN"));
  const Tensor z = net->forward(test::correlated({6, 3, 4, 4, 4}, 1, torch::kFloat));
  EXPECT_EQ(z.sizes(), (std::vector<int64_t>{6, 4}));
  std::stringstream stream;
  torch::save(net, stream);
  EXPECT_EQ(net->buffers().size(), 9u);
  std::ostringstream text;
  text << net;
  EXPECT_NE(text.str().find("BatchOrtho1d(4, \"LDL(1e-5)\") momentum=0.1"), std::string::npos)
      << text.str();
}

TEST(Clone, OfANetCarriesTheLayersAlong) {
  torch::nn::Sequential net(torch::nn::Linear(4, 6), BatchOrtho1d(6, "ZCAE(1e-5)"),
                            torch::nn::Linear(6, 2));
  const Tensor x = test::correlated({30, 4}, 1, torch::kFloat);
  net->forward(x);
  net->eval();
  auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  EXPECT_TRUE(copy->forward(x).equal(net->forward(x)));
}

TEST(OneChannel, IsBatchNormForEveryMethod) {
  const Tensor x = test::correlated({40, 1, 3}, 1);
  BatchOrtho1d bn(1, "BN(0)");
  bn->to(torch::kDouble);
  const Tensor expected = bn->forward(x);
  for (const char* spec : {"ZCA(0)", "ZCAE(0)", "ZCAM(0)", "LDL(0)", "PLDLP(0)", "PCA(0)",
                           "ZCA_corr(0)", "ZCA(0)->W->Gamma"}) {
    BatchOrtho1d layer(1, spec);
    layer->to(torch::kDouble);
    EXPECT_LT(test::relative_error(layer->forward(x), expected), 1e-12) << spec;
  }
}

}  // namespace
}  // namespace orthobatch
