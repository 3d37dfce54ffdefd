// Nets for inference: what is left of the layers, and that the answers stay.

#include "rooms.h"
#include "support.h"
#include "train/net.h"

namespace orthobatch {
namespace {

using namespace torch::nn;
using torch::Tensor;

/// The types of its modules, in a row: "Conv2d ReLU Linear".
std::string modules_of(const Sequential& net) {
  std::string out;
  for (const auto& module : net->children()) {
    const std::string name = module->name();
    const size_t from = name.rfind(':') + 1;
    out += (out.empty() ? "" : " ") + name.substr(from, name.size() - from - 4);  // without Impl
  }
  return out;
}

/// In evaluation, with statistics of the data and parameters away from their start.
Sequential trained(Sequential net, const Tensor& x) {
  net->to(torch::kDouble);
  test::randomize_parameters(net, 5);
  net->to(x.scalar_type());
  for (int k = 0; k < 3; ++k) net->forward(x);
  net->eval();
  return net;
}

/// What fold makes of it; fails where its answers are others.
std::string folded(Sequential net, const Tensor& x, double largest = tolerance::folded) {
  trained(net, x);
  Sequential plain = fold(net);
  EXPECT_LT(test::relative_error(plain->forward(x), net->forward(x)), largest) << modules_of(plain);
  EXPECT_TRUE(layers_of(*plain).empty());
  EXPECT_FALSE(plain->is_training());
  return modules_of(plain);
}

class Fold : public testing::TestWithParam<std::string> {};

TEST_P(Fold, GoesIntoANeighbour) {
  const std::string spec = GetParam();
  const Tensor x = test::correlated({24, 6, 7, 7}, 1);
  const auto norm = [&] { return BatchOrtho2d(12, spec); };
  EXPECT_EQ(folded(Sequential(Conv2d(6, 12, 3), norm()), x), "Conv2d");
  EXPECT_EQ(folded(Sequential(Conv2d(6, 12, 3), ReLU(), norm(), Conv2d(12, 4, 2)), x),
            "Conv2d ReLU Conv2d");
  EXPECT_EQ(folded(Sequential(Conv2d(6, 12, 3), ReLU(), norm(), Flatten(), Linear(300, 4)), x),
            "Conv2d ReLU Flatten Linear");
  EXPECT_EQ(folded(Sequential(Conv2d(6, 12, 3), ReLU(), norm(), AdaptiveAvgPool2d(1), Flatten(),
                              Linear(12, 4)),
                   x),
            "Conv2d ReLU AdaptiveAvgPool2d Flatten Linear");
}

TEST_P(Fold, StandsAloneWhereNoNeighbourTakesIt) {
  const std::string spec = GetParam();
  const Tensor x = test::correlated({24, 12, 5, 5}, 1);
  const auto norm = [&] { return BatchOrtho2d(12, spec); };
  const auto padded = Conv2dOptions(12, 4, 3).padding(1);
  EXPECT_EQ(folded(Sequential(ReLU(), norm(), Conv2d(padded)), x), "ReLU Conv2d Conv2d");
  EXPECT_EQ(folded(Sequential(norm(), AdaptiveMaxPool2d(1), Flatten(), Linear(12, 4)), x),
            "Conv2d AdaptiveMaxPool2d Flatten Linear");
  EXPECT_EQ(folded(Sequential(norm(), norm()), x), "Conv2d");  // the second goes into the first
}

INSTANTIATE_TEST_SUITE_P(EverySpec, Fold, testing::ValuesIn(test::all_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

TEST(FoldNet, GroupsStayApart) {
  const Tensor x = test::correlated({24, 12, 5, 5}, 1);
  const auto conv_of = [&](Sequential net) {
    trained(net, x);
    Sequential plain = fold(net);
    EXPECT_LT(test::relative_error(plain->forward(x), net->forward(x)), tolerance::folded);
    return *std::dynamic_pointer_cast<Conv2dImpl>(plain->children()[0]);
  };
  EXPECT_EQ(conv_of(Sequential(BatchOrtho2d(12, "ZCA(1e-5,group_size=4)"))).options.groups(), 3);
  EXPECT_EQ(conv_of(Sequential(BatchOrtho2d(12, "BN"))).options.groups(), 12);
  EXPECT_EQ(conv_of(Sequential(BatchOrtho2d(12, "BN->W"))).options.groups(), 1);
  // Channels that P mixes and the convolution keeps apart cannot be one; those of a group can.
  const auto in_groups = [](int64_t groups) { return Conv2dOptions(12, 6, 3).groups(groups); };
  const auto left = [&](const char* spec, int64_t groups) {
    return folded(Sequential(BatchOrtho2d(12, spec), Conv2d(in_groups(groups))), x);
  };
  EXPECT_EQ(left("ZCA(1e-5,group_size=4)", 3), "Conv2d");
  EXPECT_EQ(left("ZCA(1e-5,group_size=2)", 3), "Conv2d");
  EXPECT_EQ(left("BN", 6), "Conv2d");
  EXPECT_EQ(left("ZCA(1e-5)", 3), "Conv2d Conv2d");
  EXPECT_EQ(left("ZCA(1e-5,group_size=6)", 3), "Conv2d Conv2d");
}

TEST(FoldNet, OtherDirectionsAndPaddings) {
  const Tensor rows = test::correlated({30, 8}, 1), lines = test::correlated({16, 8, 9}, 1);
  const Tensor volumes = test::correlated({8, 4, 5, 5, 5}, 1);
  const auto one = [](int64_t n) { return BatchOrtho1d(n, "ZCA(1e-5)"); };
  EXPECT_EQ(folded(Sequential(Linear(8, 5), one(5), ReLU(), one(5), Linear(5, 3)), rows),
            "Linear ReLU Linear");
  EXPECT_EQ(folded(Sequential(one(8), ReLU()), rows), "PointwiseAffine ReLU");
  EXPECT_EQ(folded(Sequential(one(8), ReLU()), lines), "PointwiseAffine ReLU");
  EXPECT_EQ(folded(Sequential(one(8), Conv1d(8, 5, 3)), lines), "Conv1d");
  EXPECT_EQ(folded(Sequential(Conv3d(4, 5, 2), BatchOrtho3d(5, "LDL(1e-5)"), ReLU(),
                              BatchOrtho3d(5, "LDL(1e-5)"), Conv3d(5, 2, 2)),
                   volumes),
            "Conv3d ReLU Conv3d");
  const Tensor x = test::correlated({16, 6, 7, 7}, 1);
  const auto around = [](auto mode) {
    return Conv2dOptions(6, 4, 3).padding(1).padding_mode(mode);
  };
  const auto first = [] { return BatchOrtho2d(6, "ZCA(1e-5)"); };
  EXPECT_EQ(folded(Sequential(first(), Conv2d(around(torch::kReflect))), x), "Conv2d");
  EXPECT_EQ(folded(Sequential(first(), Conv2d(Conv2dOptions(6, 4, 4).padding(torch::kSame))), x),
            "Conv2d Conv2d");
  EXPECT_EQ(folded(Sequential(Conv2d(Conv2dOptions(6, 6, 3).bias(false).groups(3)),
                              BatchOrtho2d(6, "BN")),
                   x),
            "Conv2d");
}

TEST(FoldNet, TakesApartWhatWasJoinedForTraining) {
  const Tensor x = test::correlated({24, 3, 9, 9}, 1);
  Sequential net(Conv2d(3, 8, 3), ReLU(), BatchOrtho2d(8, "ZCA(1e-5)"),
                 Conv2d(Conv2dOptions(8, 6, 3).padding(1)), ReLU(), BatchOrtho2d(6, "LDL(1e-5)"),
                 AdaptiveAvgPool2d(1), Flatten(), Linear(6, 5));
  EXPECT_EQ(folded(fold_training(net), x),
            "Conv2d ReLU Conv2d Conv2d ReLU AdaptiveAvgPool2d Flatten Linear");
  FoldedLinear head(BatchOrtho2d(3, "ZCA(1e-5)"), Linear(243, 4));
  head->scale = 0.25;
  EXPECT_EQ(folded(Sequential(head), x), "Flatten Linear");
}

TEST(FoldNet, KeepsTheMeanApartWhereFloatWouldLoseIt) {
  const Tensor x = test::correlated({64, 6, 5, 5}, 1, torch::kFloat) + 1e4;
  Sequential net(ReLU(), BatchOrtho2d(6, "ZCA(1e-5)"), Conv2d(6, 4, 3));
  EXPECT_EQ(folded(net, x, 1e-5), "ReLU Conv2d Conv2d Conv2d");
  // One matrix and one offset would not do.
  const Tensor spread = (x - x.mean()).abs().mean();
  EXPECT_GT(1e4 / spread.item<double>() * 6e-8, 1e-4);
}

TEST(FoldNet, IsACopy) {
  const Tensor x = test::correlated({24, 3, 9, 9}, 1, torch::kFloat);
  Sequential net(Conv2d(3, 8, 3), BatchOrtho2d(8, "ZCA(1e-5)"), ReLU(), Conv2d(8, 4, 3));
  trained(net, x);
  const Tensor before = net->forward(x);
  Sequential plain = fold(net);
  torch::NoGradGuard no_grad;
  for (Tensor& p : plain->parameters()) p.zero_();
  EXPECT_TRUE(net->forward(x).equal(before));
  std::vector<std::string> names;
  for (const auto& child : plain->named_children()) names.push_back(child.key());
  EXPECT_EQ(names, (std::vector<std::string>{"0", "2", "3"}));
}

struct HiddenImpl : Module {
  HiddenImpl() { norm = register_module("norm", BatchOrtho2d(3, "BN")); }
  Tensor forward(const Tensor& x) { return norm(x) + x; }
  BatchOrtho2d norm{nullptr};
};
TORCH_MODULE(Hidden);

TEST(FoldNet, SaysWhatItCannotFold) {
  Sequential inside{ReLU(), Hidden()};
  test::expect_says(test::message_of([&] { fold(inside); }),
                    {"fold", "BatchOrtho2d(3, \"BN\")", "element '1'"});
  Sequential without(BatchOrtho2d(BatchOrthoOptions(3, "ZCA(1e-5)").track_running_stats(false)));
  test::expect_says(test::message_of([&] { fold(without); }), {"expected running statistics"});
  EXPECT_THROW(fold(Sequential(nullptr)), c10::Error);
}

}  // namespace
}  // namespace orthobatch
