// What a report makes of run folders: whole ones, damaged ones, none.

#include <gtest/gtest.h>

#include <cmath>

#include "io/base64.h"
#include "report/page.h"
#include "report/summary.h"
#include "report/tables.h"
#include "report_folder.h"
#include "rooms.h"

namespace orthobatch {
namespace {

using nlohmann::ordered_json;

TEST(Report, BestEpochIsByTestErrorThenLoss) {
  Folder f(R"json([{"layer": "BN"}])json");
  f.write(0, line(1, 9, 3) + line(2, 4, 2) + line(3, 5, 7));
  const RowResult row = f.read().rows[0];
  EXPECT_EQ(row.status, RowResult::Status::done);
  EXPECT_EQ(row.best_error.mean, 4);
  EXPECT_EQ(row.best_epoch.mean, 2);
  EXPECT_EQ(row.last_error.mean, 5);
  f.write(0, line(1, 4) + with(line(2, 4), "test_loss", 0.1) + line(3, 4));
  EXPECT_EQ(f.read().rows[0].best_epoch.mean, 2) << "equal errors: the least loss";
}

TEST(Report, TimeIsTheMedianOfEpochsWhereTheyAreAlike) {
  Folder f(R"json([{"layer": "BN", "seeds": [1, 2]}, {"layer": "LDL(1e-5)"}])json");
  f.write(0, line(1, 4, 2) + line(2, 4, 2.2) + line(3, 4, 2.8), 1);
  f.write(0, line(1, 4, 2) + line(2, 4, 9) + line(3, 4, 2), 2);
  f.write(1, line(1, 4, 2) + line(2, 4, 3.1) + line(3, 4, 2));
  const ExperimentResult result = f.read();
  EXPECT_EQ(result.rows[0].epoch_seconds, 2.2) << "of the steady run";
  EXPECT_EQ(result.rows[1].epoch_seconds, 0) << "3.1 of 2 is more than 1.5";
  EXPECT_FALSE(result.rows[1].times_bn);
  EXPECT_EQ(result.rows[1].runs[0].seconds_per_epoch(), 2) << "as runs and compare show it";
  const ordered_json json = to_json(std::vector<ExperimentResult>{result});
  const ordered_json& rows = json["experiments"][0]["rows"];
  EXPECT_EQ(rows[0]["runs"][0]["steady"], true);
  EXPECT_EQ(rows[0]["runs"][1]["steady"], false);
  EXPECT_TRUE(rows[1]["epoch_seconds"].is_null());
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
  EXPECT_EQ(text_rows(result_table(result))[2][1], "diverged in epoch 2 (seed 1)");
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
                                "metrics.jsonl: epoch 2 is missing"}));
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

TEST(Report, ARowIsWhatItsGravestSeedIs) {
  Folder f(R"json([{"layer": "BN", "seeds": [1, 2, 3]}])json");
  f.write(0, line(1, 9), 1);
  write_file(join_path(f.run(0, 1), "failed.txt"), "\nno space\n");
  f.write(0, three(8), 2);
  const RowResult row = f.read().rows[0];
  EXPECT_EQ(row.status, RowResult::Status::failed);
  EXPECT_EQ(row.remark,
            "failed after 1 epochs (seed 1), not counted: no space; not run yet (seed 3)");
  EXPECT_EQ(row.best_error.mean, 8);
  EXPECT_TRUE(row.finished);
}

TEST(Report, ARunIsFinishedWhenTheExperimentSaysSo) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"}])json");
  f.write(0, line(1, 9) + line(2, 8));
  remove(join_path(f.run(0), "config.json").c_str());
  f.write(1, line(1, 9) + line(2, 8), 1, /*epochs=*/2);
  const ExperimentResult result = f.read();
  EXPECT_EQ(result.rows[0].remark, "2 of 3 epochs");
  EXPECT_EQ(result.rows[1].remark, "2 of 3 epochs") << "it wanted 2 when it was trained";
  write_file(join_path(f.run(1), "config.json"), R"({"found": {"train_images": "many"}})");
  EXPECT_EQ(f.read().rows[1].runs[0].problems.at(0),
            "config.json: found: train_images: expected an integer, found \"many\"");
}

TEST(Report, FilesOfAnyContentAreReadOrNamed) {
  Folder f(R"json([{"layer": "BN"}, {"layer": "LDL(1e-5)"}, {"layer": "PCA(1e-5)"}])json");
  const std::string deep(300000, '[');
  f.write(0, with(line(1, 9), "test_loss", 1e-310) + "{\"epoch\": 2, \"diverged\": " + deep + "\n" +
                 line(1000000, 8));
  write_file(join_path(f.run(0), "pictures.json"), "{\"layers\": " + deep);
  f.write(1, three(8));
  write_file(join_path(f.run(1), "failed.txt"), "not \xff text\n");
  write_file(join_path(f.run(1), "pictures.json"),
             R"({"layers": 5, "filters": 0, "samples": null, "epoch": 1, "images": 1})");
  f.write(2, with(line(1, 9), "test_error_percent", std::string(30, 'x')) +
                 with(line(1, 9), "train_loss", nlohmann::json::array({1, 2})));
  const ExperimentResult result = f.read();
  EXPECT_EQ(
      result.rows[0].runs[0].problems,
      (std::vector<std::string>{"metrics.jsonl, line 2: expected an object, found damaged text",
                                "metrics.jsonl: epoch 2 to 999999 is missing"}));
  EXPECT_EQ(result.rows[2].runs[0].problems[1],
            "metrics.jsonl, line 2: train_loss: expected a number, found [1,2]");
  const std::string page = report_page({result}, {});
  EXPECT_NE(page.find("pictures.json: filters: expected an object, found 0"), std::string::npos);
  // What is no UTF-8 is shown as its bytes.
  EXPECT_NE(page.find(R"(failed after 3 epochs: not \\xff text)"), std::string::npos);
  EXPECT_NE(to_text(to_json({result})).find(R"(not \\xff text)"), std::string::npos);
  EXPECT_FALSE(to_markdown(result).empty());
}

TEST(Report, AMeanOfLossesWantsAllOfThem) {
  Folder f(R"json([{"layer": "BN", "seeds": [1, 2]}])json");
  f.write(0, three(8), 1);
  f.write(0,
          with(line(1, 7), "test_loss", nullptr) + with(line(2, 7), "test_loss", nullptr) +
              with(line(3, 7), "test_loss", nullptr),
          2);
  const RowResult row = f.read().rows[0];
  EXPECT_EQ(row.best_error.n, 2);
  EXPECT_EQ(row.best_loss.n, 0) << "one is infinite";
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

TEST(Report, RunsWithOtherSettingsAreNoSeedsOfOneRow) {
  Folder f(R"json([{"layer": "BN"}])json");
  Folder g(R"json([{"layer": "BN", "seeds": [2, 3], "settings": {"subset": 500}}])json");
  f.write(0, three(4));
  g.write(0, three(60), 2);
  g.write(0, three(62), 3);
  const auto results = read_results({f.run(0), g.run(0, 2), g.run(0, 3)});
  ASSERT_EQ(results.at(0).rows.size(), 2u);
  EXPECT_EQ(results[0].rows[0].row.name, "BN");
  EXPECT_EQ(results[0].rows[0].best_error.mean, 4);
  EXPECT_EQ(results[0].rows[1].row.name, "BN, synthetic-BN-seed2");
  EXPECT_EQ(results[0].rows[1].best_error.mean, 61);
  EXPECT_EQ(read_results({f.run(0), f.run(0)}).at(0).rows.size(), 2u) << "one seed, twice";
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
  EXPECT_TRUE(has("| `BN` | 6.45 | - | 2 | 9.00 | 2 | 0.9000 | 1 | 9.50 | 2.0 | 1.00 |  |\n"))
      << text;
  EXPECT_TRUE(has("| `LDL(1e-5)` | 7.00 | - | 3 | diverged in epoch 2 | - | - | - | - |")) << text;
  EXPECT_TRUE(
      has("| `ZCA(1e-5)` | 5.95 | 20 | 1 | 8.00 | 1 | 0.8000 | - | 8.00 | 2.0 | 1.00 "
          "| 1 of 3 epochs |"))
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

TEST(Report, APageWithoutUPlotSaysWhatToRun) {
  Folder f(R"json([{"layer": "BN"}])json");
  f.write(0, line(1, 9));
  std::vector<EmbeddedFile> parts;
  for (const EmbeddedFile& part : page_parts())
    if (part.name.rfind("uPlot", 0) != 0) parts.push_back(part);
  try {
    report_page({f.read()}, {}, parts);
    FAIL() << "a page without its library";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("run scripts/install-node-packages and build again"),
              std::string::npos);
  }
}

TEST(Report, ATableHasTheSameNumbersInEveryForm) {
  Folder f(R"json([{"layer": "BN", "paper": {"error_percent": 6.45}}])json");
  f.write(0, three(9));
  const Table table = result_table(f.read());
  EXPECT_NE(format_table(text_rows(table)).find("BN     6.45"), std::string::npos);
  EXPECT_NE(to_markdown(table).find("| `BN` | 6.45 |"), std::string::npos);
  const ordered_json json = to_json(table);
  EXPECT_EQ(json["rows"][0][1]["text"], "6.45");
  EXPECT_EQ(json["rows"][0][0]["row"], 0) << "the page finds its colour by it";
  EXPECT_EQ(json["rows"][0].size(), json["columns"].size());
  EXPECT_EQ(to_markdown(Table{"t", {{"a|b", "a"}}, {{{"x|y"}}}}),
            "| a\\|b |\n| --- |\n| x\\|y |\n");
}

TEST(Base64, KnownAnswers) {
  EXPECT_EQ(base64({}), "");
  EXPECT_EQ(base64({'M'}), "TQ==");
  EXPECT_EQ(base64({'M', 'a'}), "TWE=");
  EXPECT_EQ(base64({'M', 'a', 'n'}), "TWFu");
}

TEST(Report, CountsExchangesOfPivots) {
  Folder folder(R"json([{"layer": "PLDLP(1e-5)"}, {"layer": "BN"}])json");
  const auto counted = [](int epoch, int exchanges) {
    nlohmann::json layers = nlohmann::json::parse(line(epoch, 2)).at("layers");
    layers[0]["exchanges"] = exchanges;
    const nlohmann::json curve = {{"every", 4}, {"loss", {0.7, 0.6}}};
    return with(with(with(line(epoch, 2), "layers", layers), "curve", curve), "steps", 10);
  };
  folder.write(0, counted(1, 2) + counted(2, 0) + counted(3, 1));
  folder.write(1, three(3));  // lines without exchanges
  const auto sentences = conclusions(folder.read());
  ASSERT_FALSE(sentences.empty());
  EXPECT_EQ(sentences.back(), "PLDLP(1e-5): 3 exchanges among 240 pivots in all of training.");
  for (const std::string& sentence : sentences)
    EXPECT_EQ(sentence.find("BN"), std::string::npos) << sentence;
  const auto bad = with(line(1, 2), "curve", {{"every", 4}, {"loss", {"x"}}});
  folder.write(1, bad);
  EXPECT_NE(folder.read().rows[1].runs[0].problems.size(), 0u);
}

}  // namespace
}  // namespace orthobatch
