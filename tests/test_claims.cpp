// What rows say of the paper's claims: beyond noise, within it, and where there is nothing to say.

#include <gtest/gtest.h>

#include <cmath>

#include "experiment/trend.h"
#include "report/summary.h"
#include "report/tables.h"
#include "report_folder.h"
#include "rooms.h"

namespace orthobatch {
namespace {

constexpr const char* rows_of_three = R"json([
  {"layer": "BN", "seeds": [1, 2, 3], "paper": {"error_percent": 6.45}},
  {"layer": "ZCA(1e-5)", "seeds": [1, 2, 3], "paper": {"error_percent": 5.95}},
  {"layer": "LDL(1e-5)", "paper": {"error_percent": 7}}
])json";

/// Errors of a row's seeds: about `error`, 0.1 apart.
void write_seeds(Folder& f, size_t row, double error) {
  for (uint64_t seed = 1; seed <= 3; ++seed)
    f.write(row, three(error + 0.1 * (static_cast<double>(seed) - 2)), seed);
}

ExperimentClaim claim(std::vector<std::pair<std::string, std::string>> pairs, double within = 0) {
  ExperimentClaim out;
  out.text = "a claim";
  out.within = within;
  out.pairs = std::move(pairs);
  return out;
}

ClaimResult judged(const Folder& f, const ExperimentClaim& claim) {
  return judge_claims({claim}, f.read().rows).at(0);
}

TEST(Claims, HoldWhereEveryPairIsLowerBeyondNoise) {
  Folder f(rows_of_three);
  write_seeds(f, 0, 9);
  write_seeds(f, 1, 8);
  f.write(2, three(9.3));
  const ClaimResult one = judged(f, claim({{"ZCA(1e-5)", "BN"}}));
  EXPECT_EQ(one.answer, Answer::yes);
  const ClaimPair& pair = one.pairs.at(0);
  EXPECT_NEAR(pair.difference->value, -1, 1e-9);
  EXPECT_NEAR(pair.noise, 2.7764 * 0.1 * std::sqrt(2.0 / 3), 1e-4)
      << "t at 1 − 0.05 / 2, 4 degrees";
  EXPECT_NEAR(*pair.paper, -0.5, 1e-9);

  const ClaimResult reversed = judged(f, claim({{"ZCA(1e-5)", "BN"}, {"BN", "ZCA(1e-5)"}}));
  EXPECT_EQ(reversed.answer, Answer::no) << "one the other way round is enough";
  EXPECT_EQ(reversed.count(Answer::yes), 1);
  EXPECT_NEAR(reversed.pairs[0].noise, 3.4954 * 0.1 * std::sqrt(2.0 / 3), 1e-4)
      << "two chances of being wrong";

  const ClaimResult open = judged(f, claim({{"ZCA(1e-5)", "BN"}, {"BN", "LDL(1e-5)"}}));
  EXPECT_EQ(open.pairs[1].answer, Answer::undecided) << "0.3 points with one seed";
  EXPECT_EQ(open.answer, Answer::undecided);
}

TEST(Claims, AllRowsShareOneDeviation) {
  Folder f(rows_of_three);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    f.write(0, three(9 + 0.3 * (static_cast<double>(seed) - 2)), seed);
    f.write(1, three(8 + 0.01 * (static_cast<double>(seed) - 2)), seed);
  }
  f.write(2, three(10));
  const double pooled = std::sqrt((0.3 * 0.3 + 0.01 * 0.01) / 2);
  const double own = judged(f, claim({{"ZCA(1e-5)", "BN"}})).pairs[0].noise;
  const double borrowed = judged(f, claim({{"ZCA(1e-5)", "LDL(1e-5)"}})).pairs[0].noise;
  EXPECT_NEAR(own, 2.7764 * pooled * std::sqrt(1.0 / 3 + 1.0 / 3), 1e-4);
  EXPECT_NEAR(borrowed, 2.7764 * pooled * std::sqrt(1.0 / 3 + 1), 1e-4)
      << "more seeds never make a row harder to judge";
}

TEST(Claims, NearIsADistanceThatNoiseCannotExceed) {
  Folder f(rows_of_three);
  write_seeds(f, 0, 9);
  write_seeds(f, 1, 9.1);
  EXPECT_EQ(judged(f, claim({{"ZCA(1e-5)", "BN"}}, 0.4)).answer, Answer::yes);
  EXPECT_EQ(judged(f, claim({{"ZCA(1e-5)", "BN"}}, 0.2)).answer, Answer::undecided);
  write_seeds(f, 1, 10);
  EXPECT_EQ(judged(f, claim({{"ZCA(1e-5)", "BN"}}, 0.2)).answer, Answer::no);
}

TEST(Claims, AreOfTheFigureTheyName) {
  Folder f(rows_of_three);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const double noise = 0.01 * static_cast<double>(seed);
    f.write(0, line(1, 20 + noise) + line(2, 9) + with(line(3, 9 + noise), "train_loss", 0.2),
            seed);
    f.write(1,
            line(1, 30 + noise) + line(2, 8) + with(line(3, 8 + noise), "train_loss", 0.1 + noise),
            seed);
  }
  ExperimentClaim c = claim({{"ZCA(1e-5)", "BN"}});
  EXPECT_EQ(judged(f, c).answer, Answer::yes);
  c.figure = ClaimFigure::first_error;
  EXPECT_EQ(judged(f, c).answer, Answer::no);
  EXPECT_NEAR(judged(f, c).pairs[0].difference->value, 10, 1e-9);
  EXPECT_FALSE(judged(f, c).pairs[0].paper) << "the paper has no number for it";
  c.figure = ClaimFigure::train_loss;
  EXPECT_EQ(judged(f, c).answer, Answer::yes);
  EXPECT_NEAR(judged(f, c).pairs[0].difference->value, -0.08, 1e-9);
}

TEST(Claims, WhatDivergedIsBehindAndWhatIsNotThroughSaysNothing) {
  Folder f(rows_of_three);
  write_seeds(f, 0, 9);
  f.write(1, three(8), 1);
  f.write(2, diverged_line(1));
  EXPECT_EQ(judged(f, claim({{"BN", "LDL(1e-5)"}})).answer, Answer::yes);
  EXPECT_EQ(judged(f, claim({{"LDL(1e-5)", "BN"}})).answer, Answer::no);
  EXPECT_EQ(judged(f, claim({{"LDL(1e-5)", "BN"}}, 5)).answer, Answer::no);
  f.write(2, line(1, 50));
  const ClaimResult early = judged(f, claim({{"BN", "LDL(1e-5)"}}));
  EXPECT_EQ(early.answer, Answer::undecided);
  EXPECT_FALSE(early.pairs[0].difference);
}

TEST(Claims, OneSeedIsNoAnswer) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"}])json");
  f.write(0, three(9));
  f.write(1, three(50));
  const ClaimResult result = judged(f, claim({{"BN", "LDL(1e-5)"}}));
  EXPECT_EQ(result.answer, Answer::undecided);
  EXPECT_EQ(claims_text({result}), "") << "nothing to print";
}

// As the paper's table of MNIST has it: "reached the best value of BN after 9 epochs".
TEST(Claims, EpochsUntilTheBestErrorOfTheSecond) {
  Folder f(rows_of_three);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    f.write(0, line(1, 20) + line(2, 10) + line(3, 9), seed);
    f.write(1, line(1, 12) + line(2, 9) + line(3, 8), seed);
  }
  f.write(2, line(1, 30) + line(2, 20) + line(3, 10));
  ExperimentClaim c = claim({{"ZCA(1e-5)", "BN"}, {"LDL(1e-5)", "BN"}});
  c.figure = ClaimFigure::epochs_to_best;
  const ClaimResult result = judged(f, c);
  EXPECT_EQ(result.pairs[0].first_figure.mean, 2);
  EXPECT_EQ(result.pairs[0].second_figure.mean, 3) << "BN's own best";
  EXPECT_EQ(result.pairs[0].answer, Answer::yes);
  EXPECT_EQ(result.pairs[1].first_figure.mean, 4) << "never in three epochs";
  EXPECT_EQ(result.pairs[1].answer, Answer::no);
  EXPECT_FALSE(result.pairs[0].paper);
}

TEST(Claims, OfSeveralDataSetsStandInOneTable) {
  Folder f(rows_of_three);
  write_seeds(f, 0, 9);
  write_seeds(f, 1, 8);
  f.write(2, three(9.3));
  ExperimentResult one = f.read(), other = f.read();
  ExperimentClaim a = claim({{"ZCA(1e-5)", "BN"}}), b = claim({{"BN", "ZCA(1e-5)"}});
  b.text = "another claim";
  one.claims = judge_claims({a, b}, one.rows);
  for (RowResult& row : other.rows) row.row.config.data = "cifar10";
  other.claims = judge_claims({b}, other.rows);
  const std::string data = one.rows.front().row.config.data;
  EXPECT_EQ(
      to_markdown(answers_table({one, other})),
      "| claim of the paper | " + data + " | cifar10 |\n| --- | --- | --- |\n" +
          "| a claim (best error %) | yes | - |\n| another claim (best error %) | no | no |\n");
}

TEST(Trends, AreLinesThroughTheLogarithms) {
  Folder f(R"json([
    {"layer": "BN", "name": "few"}, {"layer": "BN", "name": "more"}, {"layer": "BN", "name": "all"},
    {"layer": "ZCA(1e-5)"}])json");
  const double errors[] = {16, 8, 4};
  for (size_t i = 0; i < 3; ++i) f.write(i, three(errors[i]));
  f.write(3, three(5));
  ExperimentResult result = f.read();
  for (size_t i = 0; i < 3; ++i) result.rows[i].runs[0].train_images = 1000 * (1 << (2 * i));
  result.rows[3].runs[0].train_images = 1000;
  const std::vector<Trend> trends = trends_of(result.rows);
  ASSERT_EQ(trends.size(), 2u);
  EXPECT_EQ(trends[0].points.size(), 3u);
  EXPECT_NEAR(trends[0].line->exponent, -0.5, 1e-9);
  EXPECT_NEAR(trends[0].line->at(64000), 2, 1e-9);
  EXPECT_FALSE(trends[1].line) << "one number of images";
}

TEST(Claims, AreToldInWordsAndTables) {
  Folder f(rows_of_three);
  write_seeds(f, 0, 9);
  write_seeds(f, 1, 8);
  f.write(2, three(9.3));
  ExperimentResult result = f.read();
  result.claims = judge_claims(
      {claim({{"ZCA(1e-5)", "BN"}}), claim({{"BN", "ZCA(1e-5)"}, {"BN", "LDL(1e-5)"}})},
      result.rows);
  EXPECT_EQ(conclusions(result).back(),
            "The paper's claims (yes: all of its pairs differ beyond noise):\n"
            "  yes        a claim: 1 of 1 pair\n"
            "  no         a claim: 0 of 2 pairs, 1 the other way round");
  const std::string markdown = to_markdown(result);
  EXPECT_NE(
      markdown.find("| a claim (best error %): yes | `ZCA(1e-5)` | 8.00 ± 0.10 | `BN` | 9.00 ± "
                    "0.10 | -1.00 | 0.23 | -0.50 | yes |"),
      std::string::npos)
      << markdown;
  const auto json = to_json(std::vector<ExperimentResult>{result})["experiments"][0]["claims"];
  EXPECT_EQ(json[1]["answer"], "no");
}

TEST(Claims, AreWrittenAndReadBackWithTheNamesOfTheirRows) {
  const Experiment e = experiment_from_json(
      parse_json(R"json({"rows": [{"layer": "BN"}, {"layer": "ZCA(1e-5)"}], "claims": [
        {"claim": "x", "of": "train_loss", "within": 0.5, "pairs": [["ZCA(1e-5)", "BN"]]}]})json",
                 "t"),
      "t", "t");
  const ExperimentClaim again = experiment_from_json(to_json(e), "t", "t").claims.at(0);
  EXPECT_EQ(again.text, "x");
  EXPECT_EQ(again.figure, ClaimFigure::train_loss);
  EXPECT_EQ(again.within, 0.5);
  EXPECT_EQ(again.pairs.at(0), std::make_pair(e.rows[1].name, e.rows[0].name));
}

}  // namespace
}  // namespace orthobatch
