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
