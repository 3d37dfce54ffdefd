// What is done to the layers of a net: convert, freeze, update_statistics, fold_training and back.

#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;
using namespace torch::nn;

/// A net whose BatchNorms have seen three batches.
Sequential trained_net() {
  torch::manual_seed(1);
  Sequential net;
  net->push_back("conv1", Conv2d(Conv2dOptions(3, 6, 3).bias(false)));
  net->push_back("norm1", BatchNorm2d(BatchNorm2dOptions(6).eps(1e-3)));
  net->push_back("relu", ReLU());
  net->push_back("conv2", Conv2d(6, 5, 3));
  net->push_back("norm2", BatchNorm2d(5));
  test::randomize_parameters(net, 3);
  for (int k = 0; k < 3; ++k) net->forward(torch::randn({8, 3, 9, 9}));
  return net;
}

TEST(Convert, EvaluatesAsBeforeWithTheSameParameters) {
  Sequential net = trained_net();
  const Tensor x = torch::randn({4, 3, 9, 9});
  net->eval();
  const Tensor before = net->forward(x);
  for (const char* spec : {"ZCA(1e-5)", "ZCA(1e-5, group_size=4)", "BN", "LDL(1e-5)"}) {
    Sequential ours = convert(net, spec);
    EXPECT_FALSE(ours->is_training());
    EXPECT_LT(test::relative_error(ours->forward(x), before), 1e-5) << spec;
    const auto layers = layers_of(*ours);
    ASSERT_EQ(layers.size(), 2u);
    EXPECT_EQ(layers[0].first, "norm1");
    EXPECT_EQ(layers[0].second->options.spec().value("eps"), 1e-3);
    EXPECT_TRUE(layers[0].second->weight.is_same(net->named_parameters()["norm1.weight"]));
    EXPECT_EQ(layers[1].second->num_batches_tracked.item<int64_t>(), 3);
  }
}

TEST(Convert, AnOptimizerMadeBeforeGoesOn) {
  Sequential net = trained_net();
  torch::optim::SGD sgd(net->parameters(), 0.1);
  net = convert(net, "ZCA(1e-5)");
  const Tensor before = net->named_parameters()["norm2.weight"].detach().clone();
  net->forward(torch::randn({8, 3, 9, 9})).square().sum().backward();
  sgd.step();
  EXPECT_FALSE(net->named_parameters()["norm2.weight"].equal(before));
}

TEST(Convert, AStateOfABatchNormLoadsIntoAnyLayer) {
  Sequential net = trained_net();
  std::stringstream stream;
  torch::save(net, stream);
  Sequential ours;
  ours->push_back("conv1", Conv2d(Conv2dOptions(3, 6, 3).bias(false)));
  ours->push_back("norm1", BatchOrtho2d(6, "ZCA(1e-3, group_size=4)"));
  ours->push_back("relu", ReLU());
  ours->push_back("conv2", Conv2d(6, 5, 3));
  ours->push_back("norm2", BatchOrtho2d(5, "ZCA(1e-5)"));
  torch::load(ours, stream);
  const Tensor x = torch::randn({4, 3, 9, 9});
  net->eval();
  ours->eval();
  EXPECT_LT(test::relative_error(ours->forward(x), net->forward(x)), 1e-5);
}

TEST(FoldTraining, HasAnInverse) {
  Sequential net = convert(trained_net(), "ZCA(1e-5)");
  net->push_back("conv3", Conv2d(5, 4, 3));
  const Tensor x = torch::randn({4, 3, 9, 9});
  Sequential folded = fold_training(net), back = unfold_training(folded);
  EXPECT_EQ(folded->size(), net->size() - 1);
  EXPECT_EQ(back->size(), net->size());
  EXPECT_EQ(folded->named_children().keys().back(), "conv3");
  back->eval();
  net->eval();
  EXPECT_TRUE(back->forward(x).equal(net->forward(x)));
}

TEST(Freeze, EvaluatesInTrainingUntilUnfrozen) {
  Sequential net = convert(trained_net(), "ZCA(1e-5)");
  const Tensor x = torch::randn({4, 3, 9, 9});
  net->eval();
  const Tensor evaluated = net->forward(x);
  net->train();
  freeze(*net, /*parameters=*/true);
  EXPECT_TRUE(net->forward(x).equal(evaluated));
  const auto layers = layers_of(*net);
  EXPECT_FALSE(layers[0].second->weight.requires_grad());
  unfreeze(*net);
  EXPECT_TRUE(layers[0].second->weight.requires_grad());
  EXPECT_FALSE(net->forward(x).equal(evaluated));
}

TEST(UpdateStatistics, TakesTheMeanOfWhatItIsShownAndNothingElseChanges) {
  Sequential net(BatchOrtho2d(4, "ZCA(1e-5)"), Dropout(0.5));
  const Tensor a = test::correlated({8, 4, 3, 3}, 1, torch::kFloat), b = 3 * a + 1;
  net->forward(b);
  update_statistics(*net, [&] {
    EXPECT_FALSE(net->ptr<DropoutImpl>(1)->is_training());
    net->forward(a);
    net->forward(b);
  });
  const auto layer = layers_of(*net)[0].second;
  EXPECT_TRUE(net->is_training());
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 2);
  const Tensor mean = (a.mean({0, 2, 3}) + b.mean({0, 2, 3})) / 2;
  EXPECT_LT(test::relative_error(layer->running_mean, mean), 1e-5);
  const Tensor before = layer->running_cov.clone();
  EXPECT_THROW(update_statistics(*net, [&] { throw std::runtime_error("no data"); }),
               std::runtime_error);
  EXPECT_TRUE(layer->running_cov.equal(before));
  EXPECT_EQ(layer->options.momentum(), 0.1);
}

TEST(AutoUpdateStatistics, AreThoseOfTheLastInputsOnceUntilTheNextTraining) {
  torch::manual_seed(3);
  Sequential net(Conv2d(2, 4, 3), BatchOrtho2d(4, "ZCA(1e-5)"), Dropout(0.5));
  auto run = auto_update_statistics(net, 2);
  const auto layer = layers_of(*net)[0].second;
  std::vector<Tensor> x;
  for (int k = 0; k < 4; ++k) x.push_back(torch::randn({6, 2, 7, 7}) + k);
  for (int k = 0; k < 3; ++k) run(x[k]).sum().backward();
  x[2].zero_();  // what it remembers are copies
  {
    const torch::NoGradGuard no_grad;
    net->ptr<Conv2dImpl>(0)->weight.mul_(3);
    run(x[3]);  // of no step: not remembered
  }
  net->eval();
  const Tensor generator = at::detail::getDefaultCPUGenerator().get_state();
  const Tensor z = run(x[0]);
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(generator));
  EXPECT_FALSE(net->is_training());
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 2);

  Sequential other = std::dynamic_pointer_cast<SequentialImpl>(net->clone());
  torch::manual_seed(3);
  Sequential drawn(Conv2d(2, 4, 3), BatchOrtho2d(4, "ZCA(1e-5)"), Dropout(0.5));
  for (int k = 0; k < 3; ++k) x[k] = torch::randn({6, 2, 7, 7}) + k;  // as they were
  update_statistics(*other, [&] {
    for (int k = 1; k < 3; ++k) other->forward(x[k]);
  });
  EXPECT_TRUE(layers_of(*other)[0].second->running_cov.equal(layer->running_cov));

  const Tensor before = layer->running_cov.clone();
  run(x[3]);
  EXPECT_TRUE(layer->running_cov.equal(before)) << "once until the next step";
  net->train();
  run(x[3]);
  net->eval();
  run(x[0]);
  EXPECT_FALSE(layer->running_cov.equal(before));
}

TEST(AutoUpdateStatistics, TakesNetsOfSeveralInputs) {
  struct PairImpl : Module {
    PairImpl() { register_module("norm", norm); }
    Tensor forward(const Tensor& x, double scale) { return norm(x * scale); }
    BatchOrtho2d norm{3, "ZCAM(1e-5, c=1/10)"};
  };
  auto net = std::make_shared<PairImpl>();
  auto run = auto_update_statistics(net);
  const Tensor x = test::correlated({8, 3, 5, 5}, 1, torch::kFloat);
  run(x, 2.0);
  net->eval();
  run(x, 1.0);
  EXPECT_LT(test::relative_error(net->norm->running_mean, 2 * x.mean({0, 2, 3})), 1e-5);
}

TEST(Covariance, HasItsGradient) {
  Tensor x = test::correlated({5, 3, 2, 2}, 1).requires_grad_();
  const Tensor weights = torch::randn({3, 3}, torch::kDouble);
  for (const auto& of : {covariance, correlation_matrix}) {
    EXPECT_LT(test::relative_error(of(x), of(x.detach())), 1e-12);
    const Tensor gradient = torch::autograd::grad({(of(x) * weights).sum()}, {x})[0];
    const Tensor direction = torch::randn_like(x);
    const double step = 1e-6;
    const Tensor rise =
        ((of(x.detach() + step * direction) - of(x.detach() - step * direction)) * weights).sum();
    EXPECT_NEAR((gradient * direction).sum().item<double>(), rise.item<double>() / (2 * step),
                1e-7);
  }
}

TEST(Advice, AFullWhiteningOfThousandsOfChannelsIsTold) {
  testing::internal::CaptureStderr();
  const BatchOrtho2d grouped(2048, "ZCA(1e-5, group_size=16)");
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("channels together"), std::string::npos);
  for (const bool first : {true, false}) {
    testing::internal::CaptureStderr();
    const BatchOrtho2d full(600, "ZCA(1e-5)");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("whitens 600 channels together") != std::string::npos, first) << said;
  }
}

// A 3×3 convolution of one channel fills 9 of 32 directions; the rest are divided by √ε.
TEST(EmptyDirections, AreCountedAndWarnedOfOnce) {
  torch::manual_seed(2);
  Conv2d conv(Conv2dOptions(1, 32, 3).bias(false));
  const Tensor x = conv(torch::randn({16, 1, 12, 12})).detach();
  const auto said = [&](const std::string& spec) {
    BatchOrtho2d layer(BatchOrthoOptions(32, spec).name(spec));
    int64_t times = 0;
    for (int k = 0; k < 2; ++k) {
      testing::internal::CaptureStderr();
      layer(x);
      times += testing::internal::GetCapturedStderr().find("have less variance than eps") !=
               std::string::npos;
    }
    return std::make_pair(layer->last_batch().empty, times);
  };
  EXPECT_EQ(said("ZCA(1e-5)"), std::make_pair(int64_t{23}, int64_t{1}));
  EXPECT_GT(said("LDL(1e-5)").first, 8);  // what is left of a pivot goes with ε too
  EXPECT_EQ(said("LDL(1e-5)").second, 1);
  EXPECT_EQ(said("ZCAM(1e-5, c=1/10)"), std::make_pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(said("ZCA(1e-5, group_size=8)").second, 0);
}

}  // namespace
}  // namespace orthobatch
