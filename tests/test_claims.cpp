// What rows say of the paper's claims: beyond noise, within it, and where there is nothing to say.

#include <gtest/gtest.h>

#include <cmath>

#include "report/summary.h"
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
  EXPECT_EQ(one.answer, Answer::holds);
  const ClaimPair& pair = one.pairs.at(0);
  EXPECT_NEAR(pair.difference->value, -1, 1e-9);
  EXPECT_NEAR(pair.noise, 2.7764 * 0.1 * std::sqrt(2.0 / 3), 1e-4)
      << "t at 1 − 0.05 / 2, 4 degrees";
  EXPECT_NEAR(*pair.paper, -0.5, 1e-9);

  const ClaimResult reversed =
      judged(f, claim({{"ZCA(1e-5)", "BN"}, {"BN", "ZCA(1e-5)"}}));
  EXPECT_EQ(reversed.answer, Answer::does_not) << "one the other way round is enough";
  EXPECT_EQ(reversed.count(Answer::holds), 1);
  EXPECT_NEAR(reversed.pairs[0].noise, 3.4954 * 0.1 * std::sqrt(2.0 / 3), 1e-4)
      << "two chances of being wrong";

  const ClaimResult open = judged(f, claim({{"ZCA(1e-5)", "BN"}, {"BN", "LDL(1e-5)"}}));
  EXPECT_EQ(open.pairs[1].answer, Answer::open) << "0.3 points with one seed";
  EXPECT_EQ(open.answer, Answer::open);
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
  EXPECT_EQ(judged(f, claim({{"ZCA(1e-5)", "BN"}}, 0.4)).answer, Answer::holds);
  EXPECT_EQ(judged(f, claim({{"ZCA(1e-5)", "BN"}}, 0.2)).answer, Answer::open);
  write_seeds(f, 1, 10);
  EXPECT_EQ(judged(f, claim({{"ZCA(1e-5)", "BN"}}, 0.2)).answer, Answer::does_not);
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
  EXPECT_EQ(judged(f, c).answer, Answer::holds);
  c.figure = ClaimFigure::first_error;
  EXPECT_EQ(judged(f, c).answer, Answer::does_not);
  EXPECT_NEAR(judged(f, c).pairs[0].difference->value, 10, 1e-9);
  EXPECT_FALSE(judged(f, c).pairs[0].paper) << "the paper has no number for it";
  c.figure = ClaimFigure::train_loss;
  EXPECT_EQ(judged(f, c).answer, Answer::holds);
  EXPECT_NEAR(judged(f, c).pairs[0].difference->value, -0.08, 1e-9);
}

TEST(Claims, WhatDivergedIsBehindAndWhatIsNotThroughSaysNothing) {
  Folder f(rows_of_three);
  write_seeds(f, 0, 9);
  f.write(1, three(8), 1);
  f.write(2, diverged_line(1));
  EXPECT_EQ(judged(f, claim({{"BN", "LDL(1e-5)"}})).answer, Answer::holds);
  EXPECT_EQ(judged(f, claim({{"LDL(1e-5)", "BN"}})).answer, Answer::does_not);
  EXPECT_EQ(judged(f, claim({{"LDL(1e-5)", "BN"}}, 5)).answer, Answer::does_not);
  f.write(2, line(1, 50));
  const ClaimResult early = judged(f, claim({{"BN", "LDL(1e-5)"}}));
  EXPECT_EQ(early.answer, Answer::open);
  EXPECT_FALSE(early.pairs[0].difference);
}

TEST(Claims, OneSeedIsNoAnswer) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"}])json");
  f.write(0, three(9));
  f.write(1, three(50));
  const ClaimResult result = judged(f, claim({{"BN", "LDL(1e-5)"}}));
  EXPECT_EQ(result.answer, Answer::open);
  EXPECT_EQ(claims_text({result}), "") << "nothing to print";
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
            "The paper's claims, each beyond noise in all of its pairs or not:\n"
            "  holds     a claim: 1 of 1 pair\n"
            "  does not  a claim: 0 of 2 pairs, 1 the other way round");
  const std::string markdown = to_markdown(result);
  EXPECT_NE(markdown.find(
                "| a claim (best error %): holds | `ZCA(1e-5)` | 8.00 ± 0.10 | `BN` | 9.00 ± "
                "0.10 | -1.00 | 0.23 | -0.50 | holds |"),
            std::string::npos)
      << markdown;
  const auto json = to_json(std::vector<ExperimentResult>{result})["experiments"][0]["claims"];
  EXPECT_EQ(json[1]["answer"], "does not");
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
