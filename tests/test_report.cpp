// What a report makes of run folders: whole ones, damaged ones, none.

#include <gtest/gtest.h>

#include <cmath>

#include "experiment/reproduce.h"
#include "io/base64.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "report/page.h"
#include "report/summary.h"
#include "report/verdict.h"

namespace orthobatch {
namespace {

using nlohmann::ordered_json;

std::string line(int epoch, double test_error, double seconds = 2) {
  const ordered_json layer = {
      {"name", "block1.norm"}, {"spec", "BN"}, {"channels", 8}, {"condition_number", 3},
      {"effective_rank", 7.5}, {"floored", 0}, {"null", 0}};
  const ordered_json record = {{"epoch", epoch},
                               {"learning_rate", 0.125},
                               {"batch", 256},
                               {"train_loss", 0.5},
                               {"train_error_percent", test_error + 1},
                               {"test_loss", test_error / 10},
                               {"test_error_percent", test_error},
                               {"layers", {layer}},
                               {"time", {{"train_seconds", seconds}}}};
  return record.dump() + "\n";
}

std::string three(double test_error) {
  return line(1, test_error) + line(2, test_error) + line(3, test_error);
}

std::string diverged_line(int epoch) {
  return ordered_json{{"epoch", epoch}, {"diverged", "loss nan"}, {"time", {{"train_seconds", 1}}}}
             .dump() +
         "\n";
}

/// A folder as reproduce leaves one.
class Folder {
 public:
  explicit Folder(const std::string& rows) {
    experiment_ = experiment_from_json(
        parse_json("{\"data\": \"synthetic\", \"epochs\": 3, \"rows\": " + rows + "}", "t"), "t",
        "t");
    write_file(folder_.path("t.experiment.json"), to_json(experiment_).dump());
  }
  std::string path() const { return folder_.path(); }
  std::string run(size_t row, uint64_t seed = 1) const {
    return run_folder_path(folder_.path(), experiment_.rows[row], seed);
  }
  void write(size_t row, const std::string& metrics, uint64_t seed = 1) {
    make_directories(run(row, seed));
    TrainConfig config = experiment_.rows[row].config;
    config.seed = seed;
    config.threads = 1;
    write_file(join_path(run(row, seed), "config.json"), to_json(config).dump());
    write_file(join_path(run(row, seed), "metrics.jsonl"), metrics);
  }
  ExperimentResult read() const { return read_results({folder_.path()}).at(0); }

 private:
  TemporaryFolder folder_;
  Experiment experiment_;
};

TEST(Report, BestEpochIsByTestErrorThenLoss) {
  Folder f(R"json([{"layer": "BN"}])json");
  f.write(0, line(1, 9, 3) + line(2, 4, 2) + line(3, 5, 7));
  const RowResult row = f.read().rows[0];
  EXPECT_EQ(row.status, RowResult::Status::done);
  EXPECT_EQ(row.best_error.mean, 4);
  EXPECT_EQ(row.best_epoch.mean, 2);
  EXPECT_EQ(row.last_error.mean, 5);
  EXPECT_EQ(row.epoch_seconds, 2) << "the fastest";
}

TEST(Report, MeanAndDeviationOverSeeds) {
  Folder f(R"json([{"layer": "BN", "seeds": [1, 2]}, {"layer": "LDL(1e-5)"}])json");
  f.write(0, line(1, 4) + line(2, 4) + line(3, 4), 1);
  f.write(0, line(1, 6) + line(2, 6) + line(3, 6), 2);
  f.write(1, line(1, 5, 3) + line(2, 5, 3) + line(3, 5, 3));
  const ExperimentResult result = f.read();
  EXPECT_EQ(result.rows[0].best_error.mean, 5);
  EXPECT_NEAR(*result.rows[0].best_error.deviation, std::sqrt(2.0), 1e-12);
  EXPECT_FALSE(result.rows[1].best_error.deviation);
  EXPECT_NEAR(*result.rows[1].times_bn, 1.5, 1e-12);
}

TEST(Report, ADivergedRowIsNeverANumber) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "PCA(1e-5)", "seeds": [1, 2]}])json");
  f.write(0, line(1, 4) + line(2, 4) + line(3, 4));
  f.write(1, line(1, 80) + diverged_line(2), 1);
  f.write(1, line(1, 70) + line(2, 60) + line(3, 50), 2);
  const ExperimentResult result = f.read();
  EXPECT_EQ(result.rows[1].status, RowResult::Status::diverged);
  EXPECT_EQ(result.rows[1].remark, "diverged in epoch 2 (seed 1)");
  EXPECT_EQ(result.rows[1].best_error.n, 0);
  EXPECT_EQ(text_table(result)[2][3], "-");
  const ordered_json json = to_json(std::vector<ExperimentResult>{result});
  EXPECT_TRUE(json["experiments"][0]["rows"][1]["best_error"].is_null());
  EXPECT_EQ(json["experiments"][0]["rows"][1]["rank"], 0);
}

TEST(Report, DamagedLinesAreNamedAndTheRestIsThere) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"}])json");
  std::string wrong = line(2, 4);
  wrong.replace(wrong.find("\"test_error_percent\":4.0"), 24, "\"test_error_percent\":\"x\"");
  f.write(0, line(1, 9) + "{\"epoch\": 2, \"tra\n" + line(3, 5));
  f.write(1, line(1, 8) + wrong + line(3, 6));
  const ExperimentResult result = f.read();
  ASSERT_EQ(result.rows[0].runs[0].epochs.size(), 2u);
  EXPECT_EQ(result.rows[0].best_error.mean, 5);
  EXPECT_EQ(
      result.rows[0].runs[0].problems,
      (std::vector<std::string>{"metrics.jsonl, line 2: expected an object, found damaged text",
                                "metrics.jsonl: nothing to read of epoch 2"}));
  EXPECT_EQ(result.rows[1].runs[0].problems[0],
            "metrics.jsonl, line 2: test_error_percent: expected a number, found \"x\"");
  const std::string page = report_page({result}, {});
  EXPECT_NE(page.find("line 2: expected an object"), std::string::npos);
}

TEST(Report, MissingFilesAndRows) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"},
    {"layer": "ZCA(1e-5)", "seeds": [4, 5]}])json");
  f.write(0, line(1, 9));
  make_directories(f.run(1));
  write_file(join_path(f.run(1), "failed.txt"), "no space\n");
  const ExperimentResult result = f.read();
  EXPECT_EQ(result.rows[0].status, RowResult::Status::incomplete);
  EXPECT_EQ(result.rows[0].remark, "1 of 3 epochs");
  EXPECT_EQ(result.rows[1].status, RowResult::Status::failed);
  EXPECT_EQ(result.rows[1].remark, "failed after 0 epochs: no space");
  EXPECT_EQ(result.rows[2].status, RowResult::Status::missing);
  EXPECT_EQ(result.rows[2].remark, "not run yet (seed 4); not run yet (seed 5)");
  EXPECT_THROW(read_results({f.path() + "/nowhere"}), FileError);
}

TEST(Report, RunsOfTrainMakeAnExperimentOfTheirOwn) {
  Folder f(R"json([{"layer": "BN", "seeds": [1, 2]}])json");
  f.write(0, line(1, 4), 1);
  f.write(0, line(1, 6), 2);
  const auto results = read_results({f.run(0, 1), f.run(0, 2)});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].experiment.title, "Runs on synthetic");
  ASSERT_EQ(results[0].rows.size(), 1u);
  EXPECT_EQ(results[0].rows[0].best_error.mean, 5);
}

TEST(Report, MarkdownHasPlacesAndSaysWhatCameOfEachRow) {
  Folder f(R"json([{"layer": "BN", "paper": {"error_percent": 6.45}},
    {"layer": "LDL(1e-5)", "paper": {"error_percent": 7}},
    {"layer": "ZCA(1e-5)", "paper": {"error_percent": 5.95, "epoch": 20}},
    {"layer": "PCA(1e-5)"}])json");
  f.write(0, line(1, 10) + line(2, 9) + line(3, 9.5));
  f.write(1, line(1, 12) + diverged_line(2));
  f.write(2, line(1, 8));
  const std::string text = to_markdown(f.read());
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has("| `BN` | 6.45 | - | 2 | 9.00 | 2 | 0.9000 | 2 | 9.50 | 1.00 |\n")) << text;
  EXPECT_TRUE(has("| `LDL(1e-5)` | 7.00 | - | 3 | diverged in epoch 2 | - | - | - | - |")) << text;
  EXPECT_TRUE(
      has("| `ZCA(1e-5,1e12)` | 5.95 | 20 | 1 | 8.00 | 1 | 0.8000 | 1 | 8.00; 1 of 3 epochs |"))
      << text;
  EXPECT_TRUE(has("| `PCA(1e-5,1e12)` | - | - | - | not run yet |")) << text;
  EXPECT_FALSE(has("Spearman")) << "two places say nothing";
}

TEST(Report, AnEditedMetricChangesThePage) {
  Folder f(R"json([{"layer": "BN"}])json");
  f.write(0, line(1, 9) + line(2, 4) + line(3, 5));
  const std::string before = to_json({f.read()}).dump();
  f.write(0, line(1, 9) + line(2, 3.21) + line(3, 5));
  const std::string after = to_json({f.read()}).dump();
  EXPECT_EQ(before.find("3.21"), std::string::npos);
  EXPECT_NE(after.find("\"best_error\":{\"mean\":3.21"), std::string::npos) << after;
}

TEST(Report, ThePageNeedsNothingElseAndCannotBeBrokenOutOf) {
  Folder f(R"json([{"layer": "BN", "note": "</script><script>alert(1)</script>"}])json");
  f.write(0, line(1, 9));
  const std::string page = report_page({f.read()}, {});
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find(" src="), std::string::npos);
  EXPECT_EQ(page.find("<link"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos) << page.substr(page.find("{{"), 40);
  EXPECT_NE(page.find("uPlot"), std::string::npos);
}

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
  const GradientVerdict v = gradient_verdict(f.read());
  ASSERT_EQ(v.pairs.size(), 2u);
  EXPECT_EQ(v.layers, 3);
  const GradientPair& ldl = v.pairs[0];
  EXPECT_NEAR(*ldl.difference, -6, 1e-9);
  EXPECT_NEAR(*ldl.standard_error, 0.1 * std::sqrt(2.0 / 3), 1e-9);
  EXPECT_TRUE(ldl.own_deviation && ldl.beyond_noise());
  EXPECT_NEAR(ldl.noise, 3.4954 * *ldl.standard_error, 1e-4) << "t at 1 − 0.05 / 2 / 2, 4 degrees";
  EXPECT_EQ(ldl.rank_printed, 3);
  EXPECT_EQ(ldl.rank_exact, 1);
  EXPECT_EQ(ldl.rank_paper, 3);
  const GradientPair& w = v.pairs[1];
  EXPECT_FALSE(w.own_deviation);
  EXPECT_FALSE(w.beyond_noise()) << "0.05 points with a borrowed deviation of 0.1";
  EXPECT_EQ(w.rank_printed, 2);
  EXPECT_EQ(w.rank_exact, 3);
  EXPECT_EQ(v.others_moved, 0) << "BN->W only makes room for LDL";
  EXPECT_NE(v.answer.find("beyond noise LDL(1e-5) (3 → 1); the others keep their order."),
            std::string::npos)
      << v.answer;
  // t at 1 − 0.05 / 2 / 2 with the 4 degrees that were borrowed, times √2 · 0.1.
  EXPECT_NE(v.answer.find("in the others noise alone may make 0.5 points"), std::string::npos)
      << v.answer;
}

TEST(Verdict, UnequalDeviationsCountAsTheFewerDegreesOfFreedom) {
  Folder f(R"json([{"layer": "LDL(1e-5)", "seeds": [1, 2, 3]},
                   {"layer": "LDL(1e-5,gradient=paper)", "seeds": [1, 2, 3]}])json");
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    f.write(0, three(8 + 0.01 * static_cast<double>(seed)), seed);
    f.write(1, three(9 + 4.0 * static_cast<double>(seed)), seed);
  }
  const GradientVerdict v = gradient_verdict(f.read());
  const GradientPair& ldl = v.pairs.at(0);
  EXPECT_NEAR(ldl.freedom, 2, 1e-3);
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
  const GradientVerdict v = gradient_verdict(f.read());
  const GradientPair &ldl = v.pairs.at(0), &w = v.pairs.at(1);
  EXPECT_TRUE(ldl.one_diverged);
  EXPECT_FALSE(ldl.difference);
  EXPECT_EQ(ldl.rank_printed, 2) << "after BN; BN->W is not placed";
  EXPECT_EQ(ldl.rank_exact, 1);
  EXPECT_EQ(v.sentences.at(0),
            "LDL(1e-5): diverged in epoch 2 with the printed gradient, 8.00 % with the exact one. "
            "From place 2 to place 1 of 2.");
  EXPECT_EQ(w.rank_exact, 0);
  EXPECT_EQ(w.rank_printed, 0);
  EXPECT_EQ(v.sentences.at(1),
            "BN->W: not run yet with the printed gradient, 9.00 % with the exact one; nothing to "
            "compare.");
  EXPECT_NE(v.answer.find("Yes, for some"), std::string::npos) << v.answer;
  EXPECT_NE(v.answer.find("LDL(1e-5) (2 → 1), which diverges with one"), std::string::npos)
      << v.answer;
}

TEST(Verdict, AllThatDivergeShareTheLastPlace) {
  Folder f(R"json([{"layer": "LDL(1e-5)"}, {"layer": "LDL(1e-5,gradient=paper)"},
    {"layer": "PLDLP(1e-5)"}, {"layer": "PLDLP(1e-5,gradient=paper)"}])json");
  f.write(0, three(8));
  f.write(1, diverged_line(1));
  f.write(2, three(77));
  f.write(3, diverged_line(1));
  const GradientVerdict v = gradient_verdict(f.read());
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
  const GradientVerdict v = gradient_verdict(result);
  EXPECT_NEAR(*v.pairs.at(0).difference, -22, 1e-9);
  EXPECT_FALSE(v.pairs.at(0).standard_error);
  EXPECT_EQ(v.layers, 1);
  EXPECT_EQ(v.sentences.at(1),
            "BN->W: 1 of 3 epochs with the printed gradient, 9.00 % with the exact one; nothing to "
            "compare.");
}

TEST(Verdict, OneSeedSaysNothingOfNoise) {
  Folder f(R"json([{"layer": "LDL(1e-5)"}, {"layer": "LDL(1e-5,gradient=paper)"}])json");
  f.write(0, three(8));
  f.write(1, three(30));
  const GradientVerdict v = gradient_verdict(f.read());
  EXPECT_FALSE(v.pairs.at(0).standard_error);
  EXPECT_FALSE(v.pairs.at(0).beyond_noise());
  EXPECT_NE(v.sentences.at(0).find("whether it is noise cannot be said"), std::string::npos);
  EXPECT_EQ(
      v.answer,
      "Not known: the place of 0 of 1 layers changes, but no row has two seeds to tell noise by.");
}

TEST(Statistics, KnownAnswers) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.706, 1e-3);
  EXPECT_NEAR(student_quantile(0.975, 4), 2.7764, 1e-4);
  EXPECT_NEAR(student_quantile(0.9975, 8), 3.8325, 1e-4);
  EXPECT_EQ(ranks({3.0, std::nullopt, 1.0, 3.0}), (std::vector<int>{2, 0, 1, 2}));
  EXPECT_NEAR(*rank_correlation({1.0, 2.0, 3.0, 4.0}, {10.0, 30.0, 20.0, 40.0}), 0.8, 1e-12);
  EXPECT_NEAR(*rank_correlation({1.0, 2.0, 3.0}, {3.0, 2.0, 1.0}), -1, 1e-12);
  EXPECT_FALSE(rank_correlation({1.0, 2.0}, {1.0, 2.0}));
  EXPECT_EQ(base64({}), "");
  EXPECT_EQ(base64({'M'}), "TQ==");
  EXPECT_EQ(base64({'M', 'a'}), "TWE=");
  EXPECT_EQ(base64({'M', 'a', 'n'}), "TWFu");
}

}  // namespace
}  // namespace orthobatch
