#include "orthobatch/diagnostics.h"

#include <algorithm>

#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;

TEST(Diagnostics, CovarianceAndCorrelation) {
  const Tensor x = test::correlated({20, 5, 6, 6}, 1);
  const Tensor rows = x.transpose(0, 1).reshape({5, -1});
  const Tensor centered = rows - rows.mean(1, true);
  EXPECT_LT(test::relative_error(covariance(x), centered.mm(centered.t()) / rows.size(1)), 1e-12);
  EXPECT_LT(test::relative_error(correlation_matrix(x), torch::corrcoef(rows)), 1e-12);
}

TEST(Diagnostics, CorrelationOfAConstantChannelIsZero) {
  Tensor x = test::correlated({50, 4}, 1);
  x.select(1, 2).fill_(3.0);
  const Tensor c = correlation_matrix(x);
  EXPECT_EQ(c[2].abs().max().item<double>(), 0);
  EXPECT_NEAR(c[1][1].item<double>(), 1, 1e-12);
}

TEST(Diagnostics, ConditionNumberAndEffectiveRank) {
  const Tensor d = torch::tensor({8.0, 4.0, 2.0}, torch::kDouble);
  EXPECT_NEAR(condition_number(d.diag()), 4, 1e-12);
  EXPECT_NEAR(condition_number(d), 4, 1e-12);
  EXPECT_TRUE(std::isinf(condition_number(torch::ones({3, 3}, torch::kDouble))));
  EXPECT_NEAR(effective_rank(torch::eye(6, torch::kDouble)), 6, 1e-12);
  EXPECT_NEAR(effective_rank(torch::ones({6, 6}, torch::kDouble)), 1, 1e-12);
  EXPECT_NEAR(effective_rank(torch::ones({6, 6}, torch::kDouble), 0), 1, 1e-12);
  EXPECT_GT(effective_rank(d.diag(), 0.5), effective_rank(d.diag(), 2));
  EXPECT_THROW(effective_rank(d, -1), c10::Error);
  EXPECT_THROW(condition_number(torch::ones({2, 3})), c10::Error);
  EXPECT_THROW(condition_number(torch::full({2, 2}, NAN)), c10::Error);
}

TEST(Diagnostics, WhitenessOfWhiteAndOther) {
  BatchOrtho1d layer(5, "ZCA(0)");
  layer->to(torch::kDouble);
  const Tensor x = test::correlated({400, 5}, 1);
  EXPECT_LT(whiteness_error(layer->forward(x)), 1e-10);
  EXPECT_GT(whiteness_error(x), 0.1);
}

TEST(Diagnostics, SummaryOfANet) {
  torch::nn::Sequential net(torch::nn::Conv2d(3, 8, 3), BatchOrtho2d(8, "ZCAM(1e-5,c=1/2)"),
                            torch::nn::Conv2d(8, 4, 3), BatchOrtho2d(4, "BN"));
  std::vector<LayerSummary> before = orthobatch::summary(*net);
  ASSERT_EQ(before.size(), 2u);
  EXPECT_EQ(before[0].samples, 0);

  net->forward(test::correlated({6, 3, 9, 9}, 1, torch::kFloat));
  const std::vector<LayerSummary> after = orthobatch::summary(*net);
  EXPECT_EQ(after[0].name, "1");
  EXPECT_EQ(after[0].spec, "ZCAM(1e-5,c=1/2)");
  EXPECT_EQ(after[0].samples, 6 * 7 * 7);
  EXPECT_LE(after[0].condition_number, 2.0 + 1e-9);
  EXPECT_GT(after[0].floored, 0);
  EXPECT_GT(after[0].effective_rank, 4);
  EXPECT_EQ(after[1].num_features, 4);
  EXPECT_GE(after[1].condition_number, 1);

  const std::string table = to_string(after);
  EXPECT_NE(table.find("ZCAM(1e-5,c=1/2)"), std::string::npos) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
}

TEST(Diagnostics, ALongNameIsNotCut) {
  LayerSummary layer;
  layer.name = std::string(600, 'n');
  layer.spec = "BN";
  layer.exchanges = 1234;
  layer.unfolded = 5678;
  const std::string table = to_string({layer});
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2);
  EXPECT_NE(table.find(" 1234 "), std::string::npos);
  EXPECT_EQ(table.substr(table.size() - 5), "5678\n");
}

TEST(Diagnostics, NamesReachTheMessages) {
  struct NetImpl : torch::nn::Module {
    BatchOrtho1d norm{nullptr};
    NetImpl() { norm = register_module("norm", BatchOrtho1d(3, "LDL")); }
  };
  NetImpl net;
  name_layers(net);
  EXPECT_EQ(net.norm->description(), "BatchOrtho1d(3, \"LDL(1e-5)\") 'norm'");
}

}  // namespace
}  // namespace orthobatch
