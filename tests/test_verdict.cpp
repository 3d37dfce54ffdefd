// Whether exact gradients change the order of the layers: ranks, noise, and what is said of them.

#include <gtest/gtest.h>

#include <cmath>

#include "report/summary.h"
#include "report/tables.h"
#include "report_folder.h"
#include "rooms.h"

namespace orthobatch {
namespace {

TEST(Verdict, RanksBothWaysAndTellsNoiseFromChange) {
  Folder f(R"json([
    {"layer": "BN", "paper": {"error_percent": 6.45}},
    {"layer": "LDL(1e-5)", "seeds": [1, 2, 3], "paper": {"error_percent": 7.0}},
    {"layer": "LDL(1e-5,gradient=paper)", "seeds": [1, 2, 3], "paper": {"error_percent": 7.0}},
    {"layer": "BN->W", "paper": {"error_percent": 6.63}},
    {"layer": "BN(gradient=paper)->W", "paper": {"error_percent": 6.63}}
  ])json");
  f.write(0, three(10));
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    f.write(1, three(8 + 0.1 * static_cast<double>(seed)), seed);
    f.write(2, three(14 + 0.1 * static_cast<double>(seed)), seed);
  }
  f.write(3, three(11.00));
  f.write(4, three(11.05));
  const ExperimentResult result = f.read();
  const GradientVerdict& v = result.verdict;
  ASSERT_EQ(v.pairs.size(), 2u);
  EXPECT_EQ(v.layers, 3);
  const GradientPair& ldl = v.pairs[0];
  EXPECT_NEAR(ldl.difference->value, -6, 1e-9);
  EXPECT_NEAR(*ldl.difference->standard_error, 0.1 * std::sqrt(2.0 / 3), 1e-9);
  EXPECT_TRUE(ldl.difference->own_deviation && ldl.beyond_noise());
  EXPECT_NEAR(ldl.noise, 3.4954 * *ldl.difference->standard_error, 1e-4)
      << "t at 1 − 0.05 / 2 / 2, 4 degrees";
  EXPECT_EQ(ldl.rank_printed, 3);
  EXPECT_EQ(ldl.rank_exact, 1);
  EXPECT_EQ(ldl.rank_paper, 3);
  const GradientPair& w = v.pairs[1];
  EXPECT_FALSE(w.difference->own_deviation);
  EXPECT_FALSE(w.beyond_noise()) << "0.05 points with a borrowed deviation of 0.1";
  EXPECT_EQ(w.rank_printed, 2);
  EXPECT_EQ(w.rank_exact, 3);
  EXPECT_NEAR(w.noise, 3.4954 * std::sqrt(2.0) * 0.1, 1e-4) << "the 4 degrees that were borrowed";
  EXPECT_EQ(
      answer_text(v),
      "Yes, for some of 3 layers, beyond noise: LDL(1e-5) (3 → 1). 1 of 2 differences in error "
      "are beyond noise, 1 in favour of the exact gradient.");
  const auto rows = text_rows(verdict_table(result));
  EXPECT_EQ(rows.at(1), (std::vector<std::string>{"LDL(1e-5)", "14.20 ± 0.10", "8.20 ± 0.10",
                                                  "-6.00", "0.29", "3", "3", "1", "beyond noise"}));
  EXPECT_EQ(rows.at(2).at(4), "0.49 *");
}

TEST(Verdict, UnequalDeviationsCountAsTheFewerDegreesOfFreedom) {
  Folder f(R"json([{"layer": "LDL(1e-5)", "seeds": [1, 2, 3]},
                   {"layer": "LDL(1e-5,gradient=paper)", "seeds": [1, 2, 3]}])json");
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    f.write(0, three(8 + 0.01 * static_cast<double>(seed)), seed);
    f.write(1, three(9 + 4.0 * static_cast<double>(seed)), seed);
  }
  const ExperimentResult result = f.read();
  const GradientVerdict& v = result.verdict;
  const GradientPair& ldl = v.pairs.at(0);
  EXPECT_NEAR(ldl.difference->freedom, 2, 1e-3);
  EXPECT_NEAR(ldl.noise, 4.3027 * 4 / std::sqrt(3.0), 1e-2);
  EXPECT_FALSE(ldl.beyond_noise()) << "4 degrees would have called 9 points certain";
}

TEST(Verdict, ALayerThatDivergesComesLastAndOneWithoutAResultNowhere) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"}, {"layer": "LDL(1e-5,gradient=paper)"},
    {"layer": "BN->W"}, {"layer": "BN(gradient=paper)->W"}])json");
  f.write(0, three(10));
  f.write(1, three(8));
  f.write(2, line(1, 60) + diverged_line(2));
  f.write(3, three(9));
  const ExperimentResult result = f.read();
  const GradientVerdict& v = result.verdict;
  const GradientPair &ldl = v.pairs.at(0), &w = v.pairs.at(1);
  EXPECT_TRUE(ldl.one_diverged);
  EXPECT_FALSE(ldl.difference);
  EXPECT_EQ(ldl.rank_printed, 2) << "after BN; BN->W is not placed";
  EXPECT_EQ(ldl.rank_exact, 1);
  EXPECT_EQ(w.rank_exact, 0);
  EXPECT_EQ(w.rank_printed, 0);
  const auto rows = text_rows(verdict_table(result));
  EXPECT_EQ(rows.at(1).at(1), "diverged in epoch 2");
  EXPECT_EQ(rows.at(2).at(1), "not run yet");
  EXPECT_NE(answer_text(v).find("Yes, for some"), std::string::npos) << answer_text(v);
  EXPECT_NE(answer_text(v).find("LDL(1e-5) (2 → 1, diverges with one"), std::string::npos)
      << answer_text(v);
}

TEST(Verdict, AllThatDivergeShareTheLastPlace) {
  Folder f(R"json([{"layer": "LDL(1e-5)"}, {"layer": "LDL(1e-5,gradient=paper)"},
    {"layer": "PLDLP(1e-5)"}, {"layer": "PLDLP(1e-5,gradient=paper)"}])json");
  f.write(0, three(8));
  f.write(1, diverged_line(1));
  f.write(2, three(77));
  f.write(3, diverged_line(1));
  const ExperimentResult result = f.read();
  const GradientVerdict& v = result.verdict;
  EXPECT_EQ(v.pairs.at(0).rank_printed, 2);
  EXPECT_EQ(v.pairs.at(0).rank_exact, 1);
  EXPECT_EQ(v.pairs.at(1).rank_printed, 2) << "not first by sharing it";
  EXPECT_EQ(v.pairs.at(1).rank_exact, 2);
}

TEST(Verdict, WhatIsInTheMiddleOfItsTrainingIsNotCompared) {
  Folder f(R"json([{"layer": "LDL(1e-5)", "seeds": [1, 2]}, {"layer": "LDL(1e-5,gradient=paper)"},
    {"layer": "BN->W"}, {"layer": "BN(gradient=paper)->W"}])json");
  f.write(0, three(8), 1);
  f.write(0, line(1, 40), 2);
  f.write(1, three(30));
  f.write(2, three(9));
  f.write(3, line(1, 50));
  const ExperimentResult result = f.read();
  EXPECT_EQ(result.rows[0].best_error.n, 1) << "an early epoch is not averaged with a late one";
  EXPECT_EQ(result.rows[0].best_error.mean, 8);
  EXPECT_EQ(result.rows[0].remark, "1 of 3 epochs (seed 2), not counted");
  EXPECT_EQ(result.rows[3].best_error.mean, 50) << "shown as far as it is";
  const GradientVerdict& v = result.verdict;
  EXPECT_NEAR(v.pairs.at(0).difference->value, -22, 1e-9);
  EXPECT_FALSE(v.pairs.at(0).judged());
  EXPECT_EQ(v.layers, 1);
  EXPECT_EQ(text_rows(verdict_table(result)).at(2).at(3), "-") << "no difference";
}

TEST(Verdict, OneSeedSaysNothingOfNoise) {
  Folder f(R"json([{"layer": "LDL(1e-5)"}, {"layer": "LDL(1e-5,gradient=paper)"}])json");
  f.write(0, three(8));
  f.write(1, three(30));
  const ExperimentResult result = f.read();
  const GradientVerdict& v = result.verdict;
  EXPECT_FALSE(v.pairs.at(0).judged());
  EXPECT_FALSE(v.pairs.at(0).beyond_noise());
  EXPECT_EQ(text_rows(verdict_table(result)).at(1).back(), "one seed");
  EXPECT_EQ(
      answer_text(v),
      "Not known: the place of 0 of 1 layers changes, but no row has two seeds, so the noise is unknown.");
}

TEST(Verdict, EndsOfDifferentLengthAreNotCompared) {
  Folder f(
      R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"}, {"layer": "LDL(1e-5,gradient=paper)"}])json");
  f.write(0, three(10));
  f.write(1, three(8) + line(4, 7), 1, /*epochs=*/4);
  f.write(2, three(30));
  const ExperimentResult result = f.read();
  const GradientVerdict& v = result.verdict;
  EXPECT_FALSE(v.pairs.at(0).difference);
  EXPECT_EQ(v.pairs.at(0).rank_exact, 0);
}

TEST(Verdict, NoiseIsNotClaimedWhereItIsNotKnown) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"}, {"layer": "LDL(1e-5,gradient=paper)"},
    {"layer": "BN->W"}, {"layer": "BN(gradient=paper)->W"}])json");
  f.write(0, three(20));
  f.write(1, three(8));
  f.write(2, diverged_line(1));
  f.write(3, three(12));
  f.write(4, three(60));
  const ExperimentResult result = f.read();
  const GradientVerdict& v = result.verdict;
  EXPECT_NE(answer_text(v).find("No row has two seeds, so the noise is unknown"), std::string::npos)
      << answer_text(v);
}

TEST(Statistics, KnownAnswers) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.706, 1e-3);
  EXPECT_NEAR(student_quantile(0.975, 4), 2.7764, 1e-4);
  EXPECT_NEAR(student_quantile(0.9975, 8), 3.8325, 1e-4);
  EXPECT_EQ(ranks_of({3.0, std::nullopt, 1.0, 3.0}), (std::vector<int>{2, 0, 1, 2}));
  EXPECT_NEAR(*rank_correlation({1.0, 2.0, 3.0, 4.0}, {10.0, 30.0, 20.0, 40.0}), 0.8, 1e-12);
  EXPECT_NEAR(*rank_correlation({1.0, 2.0, 3.0}, {3.0, 2.0, 1.0}), -1, 1e-12);
  EXPECT_FALSE(rank_correlation({1.0, 2.0}, {1.0, 2.0}));
}

}  // namespace
}  // namespace orthobatch
