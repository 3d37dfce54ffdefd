// Folded layers as modules: state, copies, evaluation, refusals, sampled statistics, Sequentials.

#include "folded_pair.h"
#include "rooms.h"

namespace orthobatch {
namespace {

using test::conv2d;
using test::randomize;
using test::unfolded;
using torch::Tensor;

TEST(FoldedModule, CountsWhatItCannotFold) {
  const auto options = torch::nn::Conv2dOptions(12, 5, 3);
  const Tensor x = test::correlated({32, 12, 9, 9}, 1, torch::kFloat);
  EXPECT_EQ(unfolded("ZCA(1e-5)", options, x), 0);
  EXPECT_EQ(unfolded("ZCA(1e-5)", options, x + 1e4), 1);
  Tensor twice = x.clone();
  twice.select(1, 11).copy_(x.select(1, 0));
  EXPECT_EQ(unfolded("ZCA(1e-5)", options, twice), 1);

  BatchOrtho2d norm(12, "ZCA(1e-5)");
  FoldedConv2d folded(norm, conv2d(options));
  for (int k = 0; k < 3; ++k) folded(twice);
  folded(x);
  const auto summary = orthobatch::summary(*folded);
  ASSERT_EQ(summary.size(), 1u);
  EXPECT_EQ(summary[0].name, "norm");
  EXPECT_EQ(summary[0].unfolded, 3);
}

TEST(FoldedModule, StateIsThatOfThePair) {
  FoldedConv2d folded(BatchOrtho2d(6, "ZCA(1e-5)->W"), conv2d({6, 4, 3}));
  std::vector<std::string> names;
  for (const auto& p : folded->named_parameters()) names.push_back(p.key());
  EXPECT_EQ(names,
            (std::vector<std::string>{"norm.bias", "norm.skew", "conv.weight", "conv.bias"}));
  FoldedLinear head(BatchOrtho2d(6, "BN"), torch::nn::Linear(6 * 4, 3));
  names.clear();
  for (const auto& b : head->named_buffers()) names.push_back(b.key());
  EXPECT_EQ(names, (std::vector<std::string>{"norm.running_mean", "norm.running_var",
                                             "norm.num_batches_tracked"}));
}

TEST(FoldedModule, ClonesAndSavesAsTorchsModules) {
  const Tensor x = test::correlated({8, 6, 5, 4}, 1, torch::kFloat);
  const auto check = [&](auto folded, auto other) {
    folded(x);  // running statistics away from their start
    auto copy = folded->clone();
    std::stringstream file;
    torch::save(folded, file);
    torch::load(other, file);
    folded->eval();
    other->eval();
    copy->eval();
    const Tensor y = folded(x);
    using Impl = typename decltype(folded)::ContainedType;
    EXPECT_TRUE(std::dynamic_pointer_cast<Impl>(copy)->forward(x).equal(y));
    EXPECT_TRUE(other(x).equal(y));
    torch::NoGradGuard no_grad;  // the copy is its own
    copy->named_parameters()["norm.bias"].add_(1);
    EXPECT_TRUE(folded(x).allclose(y, 1e-6, 1e-6));
    EXPECT_FALSE(std::dynamic_pointer_cast<Impl>(copy)->forward(x).allclose(y, 1e-2, 1e-2));
  };
  check(FoldedConv2d(BatchOrtho2d(6, "ZCA(1e-5)"), conv2d({6, 4, 3})),
        FoldedConv2d(BatchOrtho2d(6, "ZCA(1e-5)"), conv2d({6, 4, 3})));
  check(FoldedLinear(BatchOrtho2d(6, "LDL(1e-5)"), torch::nn::Linear(6 * 20, 3)),
        FoldedLinear(BatchOrtho2d(6, "LDL(1e-5)"), torch::nn::Linear(6 * 20, 3)));
}

TEST(FoldedModule, EvaluationFollowsEveryChange) {
  const Tensor x = test::correlated({8, 6, 5, 4}, 1);
  BatchOrtho2d norm(6, "ZCA(1e-5)");
  torch::nn::Conv2d conv = conv2d(torch::nn::Conv2dOptions(6, 4, 3).padding(1));
  FoldedConv2d folded(norm, conv);
  folded->to(torch::kDouble);
  folded(x);
  folded->eval();
  torch::NoGradGuard no_grad;
  const auto same = [&] {
    return test::relative_error(folded(x), conv(norm(x))) < tolerance::folded;
  };
  EXPECT_TRUE(same());
  conv->weight.data_ptr<double>()[7] += 1;  // behind torch's back
  EXPECT_TRUE(same());
  conv->bias.data_ptr<double>()[1] += 1;
  EXPECT_TRUE(same());
  norm->weight.data_ptr<double>()[2] += 1;
  EXPECT_TRUE(same());
  norm->running_cov.mul_(2);
  EXPECT_TRUE(same());
  conv->weight.set_data(conv->weight * 2);
  EXPECT_TRUE(same());
  EXPECT_TRUE(test::relative_error(folded(x.narrow(2, 0, 3)), conv(norm(x.narrow(2, 0, 3)))) <
              tolerance::folded);
}

TEST(FoldedModule, GradientsOfPartsAlone) {
  const Tensor data = test::correlated({8, 6, 5, 4}, 1);
  BatchOrtho2d norm(6, "ZCA(1e-5)");
  torch::nn::Conv2d conv = conv2d({6, 4, 3});
  FoldedConv2d folded(norm, conv);
  folded->to(torch::kDouble);
  const auto gradient = [&](bool fold, const Tensor& of) {
    Tensor x = data.clone().requires_grad_();
    const Tensor y = fold ? folded(x) : conv(norm(x));
    return torch::autograd::grad({y.pow(3).sum()}, {of.defined() ? of : x})[0];
  };
  for (const Tensor& of : {Tensor(), norm->weight, norm->bias, conv->weight, conv->bias})
    EXPECT_LT(test::relative_error(gradient(true, of), gradient(false, of)), tolerance::folded);
  for (const bool training : {true, false}) {
    folded->train(training);
    for (torch::Tensor& p : folded->parameters()) p.set_requires_grad(false);
    EXPECT_LT(test::relative_error(gradient(true, {}), gradient(false, {})), tolerance::folded);
    EXPECT_FALSE(folded(data).requires_grad());
    for (torch::Tensor& p : folded->parameters()) p.set_requires_grad(true);
    EXPECT_TRUE(folded(data).requires_grad());
  }
}

TEST(FoldedModule, FrozenInEvaluationItStillHasAGradientOfItsInput) {
  BatchOrtho2d norm(6, "ZCA(1e-5)");
  torch::nn::Linear linear(6 * 20, 3);
  FoldedLinear folded(norm, linear);
  folded->to(torch::kDouble);
  folded(test::correlated({8, 6, 5, 4}, 1));
  folded->eval();
  for (torch::Tensor& p : folded->parameters()) p.set_requires_grad(false);
  const auto gradient = [&](bool fold) {
    Tensor x = test::correlated({8, 6, 5, 4}, 2).requires_grad_();
    const Tensor y = fold ? folded(x) : linear(norm(x).flatten(1));
    return torch::autograd::grad({y.pow(3).sum()}, {x})[0];
  };
  EXPECT_LT(test::relative_error(gradient(true), gradient(false)), tolerance::folded);
}

TEST(FoldedModule, RefusesWhatThePairRefuses) {
  BatchOrtho2d norm(6, "ZCA(1e-5)");
  FoldedConv2d folded(norm, conv2d({6, 4, 3}));
  const auto says = [&](const Tensor& x, const char* words) {
    EXPECT_NE(test::message_of([&] { folded(x); }).find(words), std::string::npos)
        << test::message_of([&] { folded(x); });
  };
  says(torch::randn({2, 6, 5}), "expected 4D input");
  says(torch::randn({2, 5, 5, 5}), "expected 6 channels");
  says(torch::full({2, 6, 5, 5}, NAN), "expected finite input");
  says(torch::randn({2, 6, 5, 2}), "expected at least 3 places in direction 1, got 2");
  FoldedConv2d pointwise(norm, conv2d({6, 4, 1}));
  EXPECT_NE(test::message_of([&] {
              pointwise(torch::randn({1, 6, 1, 1}));
            }).find("Expected more than 1 value per channel"),
            std::string::npos);
  FoldedConv2d still(norm, conv2d(torch::nn::Conv2dOptions(6, 4, 3).stride(0)));
  EXPECT_NE(test::message_of([&] {
              still(torch::randn({2, 6, 5, 5}));
            }).find("stride is at least 1"),
            std::string::npos);
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 0);
  EXPECT_NE(test::message_of([] {
              FoldedConv2d(BatchOrtho2d(6, "BN"), conv2d({5, 4, 3}));
            }).find("reads the 6 channels"),
            std::string::npos);
  EXPECT_NE(test::message_of([] {
              FoldedLinear(BatchOrtho2d(6, "BN"), torch::nn::Linear(7, 4));
            }).find("maps of the 6 channels"),
            std::string::npos);
  FoldedLinear head(BatchOrtho2d(6, "BN"), torch::nn::Linear(12, 4));
  EXPECT_NE(test::message_of([&] {
              head(torch::randn({2, 6, 5, 5}));
            }).find("12 values a sample"),
            std::string::npos);
  EXPECT_EQ(folded(torch::empty({0, 6, 5, 5})).sizes(), (std::vector<int64_t>{0, 4, 3, 3}));

  Tensor x = torch::randn({4, 6, 5, 5}).requires_grad_();
  const Tensor first =
      torch::autograd::grad({folded(x).pow(2).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  EXPECT_NE(test::message_of([&] { first.sum().backward(); }).find("differentiated once"),
            std::string::npos);
}

TEST(FoldedModule, SampledStatisticsHaveExactGradients) {
  for (const char* spec : {"ZCA(1e-5)", "BN", "LDL(1e-5)->W->Gamma"}) {
    BatchOrtho2d norm(BatchOrthoOptions(4, spec).sample_stride(2));
    randomize(norm, 5);
    norm->to(torch::kDouble);
    const Tensor data = test::correlated({6, 4, 5, 4}, 1), G = test::correlated({6, 4, 5, 4}, 2);
    Tensor x = data.clone().requires_grad_();
    (norm(x) * G).sum().backward();
    torch::NoGradGuard no_grad;
    const double h = 1e-6;
    for (const int64_t at : {0, 1, 5, 22, 47, 100, 333}) {
      const auto value = [&](double by) {
        Tensor moved = data.clone();
        moved.view(-1)[at] += by;
        return (norm(moved) * G).sum().item<double>();
      };
      EXPECT_NEAR((value(h) - value(-h)) / (2 * h), x.grad().view(-1)[at].item<double>(),
                  tolerance::gradient * x.grad().abs().max().item<double>())
          << spec << " " << at;
    }
  }
  BatchOrtho2d norm(BatchOrthoOptions(4, "ZCA(1e-5)").sample_stride(2));
  norm->to(torch::kDouble);
  const Tensor x = test::correlated({6, 4, 5, 4}, 1);
  norm(x);
  EXPECT_EQ(norm->last_batch().samples, 6 * 3 * 2);
  using torch::indexing::Slice;
  const Tensor seen = x.index({Slice(), Slice(), Slice(0, 5, 2), Slice(0, 4, 2)});
  EXPECT_LT(test::relative_error(norm->last_batch().covariance,
                                 covariance(seen) + 1e-5 * torch::eye(4, torch::kDouble)),
            tolerance::folded);
  testing::internal::CaptureStderr();
  for (int k = 0; k < 2; ++k) norm(x.narrow(0, 0, 1).narrow(2, 0, 3).narrow(3, 0, 2));
  const std::string warned = testing::internal::GetCapturedStderr();
  const std::string words = "sample_stride 2 sees 2 places for 4 channels";
  EXPECT_NE(warned.find(words), std::string::npos) << warned;
  EXPECT_EQ(warned.find(words), warned.rfind(words)) << warned;
  norm->options.sample_stride(0);
  EXPECT_NE(test::message_of([&] { norm(x); }).find("sample_stride of 1 or more, got 0"),
            std::string::npos);
}

TEST(FoldTraining, JoinsThePairsOfASequential) {
  using namespace torch::nn;
  Sequential net(Conv2d(3, 8, 3), ReLU(), BatchOrtho2d(8, "ZCA(1e-5)"), Conv2d(8, 6, 3), ReLU(),
                 BatchOrtho2d(6, "BN"), ReLU(), BatchOrtho2d(6, "LDL(1e-5)"), AdaptiveAvgPool2d(1),
                 Flatten(), Linear(6, 5), BatchOrtho1d(5, "ZCA(1e-5)"), Linear(5, 4));
  net->to(torch::kDouble);
  Sequential folded = fold_training(net);
  std::vector<std::string> names;
  for (const auto& child : folded->named_children()) names.push_back(child.key());
  EXPECT_EQ(names, (std::vector<std::string>{"0", "1", "3", "4", "5", "6", "10", "12"}));
  EXPECT_TRUE(folded->children()[2]->as<FoldedConv2d>());
  EXPECT_TRUE(folded->children()[6]->as<FoldedLinear>());
  EXPECT_TRUE(folded->children()[7]->as<FoldedLinear>());
  EXPECT_EQ(folded->parameters().size(), net->parameters().size());
  const Tensor x = test::correlated({16, 3, 9, 9}, 1);
  EXPECT_LT(test::relative_error(folded->forward(x), net->forward(x)), tolerance::folded);

  Sequential flat_net(BatchOrtho2d(3, "ZCA(1e-5)"), Flatten(), Linear(27, 4));
  flat_net->to(torch::kDouble);
  const Tensor small = test::correlated({16, 3, 3, 3}, 1);
  EXPECT_EQ(fold_training(flat_net)->size(), 1u);
  EXPECT_LT(test::relative_error(fold_training(flat_net)->forward(small), flat_net->forward(small)),
            tolerance::folded);
}

}  // namespace
}  // namespace orthobatch
