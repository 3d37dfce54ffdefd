// Experiments as files: the paper's own are what the paper says, and a mistake is pointed at.

#include <gtest/gtest.h>

#include <algorithm>

#include "experiment/experiment.h"
#include "experiment/reproduce.h"
#include "orthobatch/spec.h"
#include "rooms.h"

namespace orthobatch {
namespace {

Experiment read(const std::string& text) {
  return experiment_from_json(parse_json(text, "my.json"), "my", "my.json");
}

std::string complaint(const std::string& text) {
  try {
    read(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(PaperExperiments, EveryRowOfBothTablesIsThere) {
  EXPECT_EQ(experiment_names(),
            (std::vector<std::string>{"cifar10", "fashion-mnist", "gradients", "mnist", "renyi",
                                      "skew", "svhn-images", "svhn"}));
  const Experiment mnist = find_experiment("mnist");
  ASSERT_EQ(mnist.rows.size(), 5u);
  EXPECT_EQ(mnist.rows[1].name, to_string(parse("ZCAM(1e-7,c=1/100)")));
  EXPECT_EQ(mnist.rows[2].paper.error_percent, 0.30);
  EXPECT_EQ(mnist.rows[2].paper.epoch, 25);
  EXPECT_EQ(mnist.figures.size(), 6u);
  const Experiment svhn = find_experiment("svhn");
  ASSERT_EQ(svhn.rows.size(), 20u);
  EXPECT_EQ(svhn.rows[0].paper.loss, 0.0237);
  EXPECT_EQ(svhn.rows[18].paper.error_percent, 8.10);
  EXPECT_FALSE(svhn.rows[19].paper.error_percent) << "the paper has no number for PCA";
  EXPECT_EQ(svhn.loss_share, 10);
}

TEST(PaperExperiments, OtherDataHasTheSameRows) {
  const std::pair<const char*, const char*> pairs[] = {{"svhn", "cifar10"},
                                                       {"mnist", "fashion-mnist"}};
  for (const auto& [paper, other] : pairs) {
    const Experiment a = find_experiment(paper), b = find_experiment(other);
    ASSERT_EQ(a.rows.size(), b.rows.size());
    for (size_t i = 0; i < a.rows.size(); ++i) {
      EXPECT_EQ(a.rows[i].name, b.rows[i].name);
      EXPECT_EQ(a.rows[i].seeds, b.rows[i].seeds);
      EXPECT_EQ(b.rows[i].config.epochs, paper_config(b.rows[i].config.data, "BN").epochs);
      EXPECT_FALSE(b.rows[i].paper.error_percent);
    }
    ASSERT_EQ(a.claims.size(), b.claims.size());
    for (size_t i = 0; i < a.claims.size(); ++i) EXPECT_EQ(a.claims[i].text, b.claims[i].text);
  }
}

// The mean cross-entropy is at least ln 2 times the share of wrong answers: what the paper prints
// is below it in every row, and ten times as much is above it.
TEST(PaperExperiments, LossOfSvhnCannotBeCrossEntropyItself) {
  for (const ExperimentRow& row : find_experiment("svhn").rows) {
    if (!row.paper.loss) continue;
    const double least = std::log(2.0) * *row.paper.error_percent / 100;
    EXPECT_LT(*row.paper.loss, least) << row.name;
    EXPECT_GT(10 * *row.paper.loss, least) << row.name;
  }
}

TEST(PaperExperiments, GradientsComeInPairs) {
  const Experiment e = find_experiment("gradients");
  size_t pairs = 0;
  for (const ExperimentRow& row : e.rows) {
    const LayerSpec spec = parse(row.name);
    if (spec.gradient() != Gradient::paper) continue;
    ++pairs;
    const std::string exact = to_string(spec.with_gradient(Gradient::exact));
    const auto other = std::find_if(e.rows.begin(), e.rows.end(),
                                    [&](const ExperimentRow& r) { return r.name == exact; });
    ASSERT_NE(other, e.rows.end()) << exact;
    EXPECT_EQ(other->seeds, row.seeds) << exact;
  }
  EXPECT_EQ(pairs, 10u);
}

// One folder holds both, and a table's rows are those of the figure with all images.
TEST(PaperExperiments, OfOneFolderShareTheirRuns) {
  const auto shared = [](const char* one, const char* other) {
    int64_t count = 0;
    for (const ExperimentRow& a : find_experiment(one).rows)
      for (const ExperimentRow& b : find_experiment(other).rows) {
        if (run_folder_path("DIR", a, 1) != run_folder_path("DIR", b, 1)) continue;
        EXPECT_EQ(deciding_settings(a.config), deciding_settings(b.config)) << a.name;
        ++count;
      }
    return count;
  };
  EXPECT_EQ(shared("svhn", "svhn-images"), 3);
  EXPECT_EQ(shared("gradients", "skew"), 3);
  EXPECT_EQ(shared("gradients", "renyi"), 2);
}

TEST(Experiments, RowsInheritAndOverride) {
  const Experiment e = read(R"json({
    "title": "Mine", "data": "synthetic", "epochs": 3, "seeds": [4, 5],
    "settings": {"refresh_images": 0, "schedule": {"learning_rate": 0.5, "batch": 64}},
    "rows": [
      {"layer": "BN"},
      {"layer": "ZCA(1e-5)", "name": "small", "epochs": 2, "seeds": [1],
       "settings": {"schedule": {"batch": 32}},
       "blocks": [{"channels": 8}, {"channels": 16, "layer": "BN"}]}
    ]
})json");
  EXPECT_EQ(e.rows[0].seeds, (std::vector<uint64_t>{4, 5}));
  EXPECT_EQ(e.rows[0].config.epochs, 3);
  EXPECT_EQ(e.rows[0].config.schedule.batch, 64);
  const TrainConfig& small = e.rows[1].config;
  EXPECT_EQ(e.rows[1].name, "small");
  EXPECT_EQ(small.schedule.batch, 32);
  EXPECT_EQ(small.schedule.learning_rate, 0.5);
  EXPECT_EQ(small.refresh_images, 0);
  ASSERT_EQ(small.net.blocks.size(), 2u);
  EXPECT_EQ(small.net.blocks[0].layer, to_string(parse("ZCA(1e-5)")));
  EXPECT_EQ(small.net.blocks[1].layer, "BN");
}

TEST(Experiments, WhatIsWrittenReadsBack) {
  for (const std::string& name : experiment_names()) {
    const Experiment e = find_experiment(name);
    const nlohmann::ordered_json once = to_json(e);
    const Experiment again = experiment_from_json(nlohmann::json(once), name, name);
    EXPECT_EQ(to_json(again), once) << name;
  }
}

TEST(Experiments, AMistakeIsPointedAt) {
  const std::pair<const char*, const char*> cases[] = {
      {R"json({"rows": []})json", "my.json: rows: expected a list of one or more, found []"},
      {R"json({"rows": [{"layer": "BN"}], "epoks": 3})json",
       "my.json: no setting 'epoks', expected"},
      {R"json({"rows": [{"layer": "BN"}, {"leyer": "BN"}]})json",
       "my.json: rows[1]: no setting 'leyer', expected"},
      {R"json({"rows": [{"layer": 3}]})json", "my.json: rows[0]: layer: expected a text, found 3"},
      {R"json({"rows": [{"layer": "BN", "name": "two\nlines"}]})json",
       "my.json: rows[0]: name: expected a line of text without control characters, found "
       "\"two\\n"},
      {R"json({"rows": [{"layer": "ZCB"}]})json", "my.json: rows[0]: "},
      {R"json({"rows": [{}]})json",
       "my.json: rows[0]: expected a \"layer\" or \"blocks\", found {}"},
      {R"json({"rows": [{"layer": "BN", "paper": {"error_percent": "x"}}]})json",
       "my.json: rows[0]: paper: error_percent: expected a number, found \"x\""},
      {R"json({"rows": [{"layer": "BN", "settings": {"schedule": {"rate": 1}}}]})json",
       "my.json: rows[0]: schedule: no setting 'rate'"},
      {R"json({"rows": [{"layer": "BN", "settings": {"epochs": 3}}]})json",
       "my.json: rows[0]: settings: expected no 'epochs' here"},
      {R"json({"rows": [{"layer": "BN", "settings": {"threads": 1}}]})json",
       "my.json: rows[0]: settings: expected no 'threads' here (reproduce takes it as --threads)"},
      {R"json({"rows": [{"layer": "BN", "blocks": [{"channels": 4, "layer": "ZCA"}]}]})json",
       "my.json: rows[0]: layer: expected a block that takes it, as each has a layer of its own"},
      {R"json({"rows": [{"layer": "BN", "seeds": [18446744073709551615]}]})json",
       "my.json: rows[0]: seeds: expected a list of integers, 0 to 9223372036854775807"},
      {R"json({"rows": [{"layer": "BN", "seeds": [1, 1]}]})json",
       "my.json: rows[0]: seeds: expected one or more, each once, found [1,1]"},
      {R"json({"rows": [{"layer": "BN"}, {"layer": "BN"}]})json",
       "my.json: rows[1]: expected a name of its own"},
      {R"json({"rows": [{"layer": "BN"}], "figures": [{"title": "x", "rows": ["LDL"]}]})json",
       "my.json: figures[0]: rows: expected patterns that match a row, found \"LDL\""},
      {R"json({"rows": [{"layer": "BN"}], "claims": [{"pairs": [["BN", "BN"]]}]})json",
       "my.json: claims[0]: expected a \"claim\", its text"},
      {R"json({"rows": [{"layer": "BN"}], "claims": [{"claim": "x"}]})json",
       "my.json: claims[0]: expected \"pairs\", one or more"},
      {R"json({"rows": [{"layer": "BN"}], "claims": [{"claim": "x", "pairs": [["BN", "LDL"]]}]})json",
       "my.json: claims[0]: pairs: expected names of rows, found \"LDL\""},
      {R"json({"rows": [{"layer": "BN"}], "claims": [{"claim": "x", "pairs": [["BN", "BN"]]}]})json",
       "my.json: claims[0]: pairs: expected pairs of two rows, found [\"BN\",\"BN\"]"},
      {R"json({"rows": [{"layer": "BN"}], "claims": [{"claim": "x", "pairs": ["BN"]}]})json",
       "my.json: claims[0]: pairs: expected pairs of two rows, found \"BN\""},
      {R"json({"rows": [{"layer": "BN"}],
          "claims": [{"claim": "x", "of": "best_eror", "pairs": [["BN", "BN"]]}]})json",
       "my.json: claims[0]: of: expected best_error, first_error, train_loss or epochs_to_best, "
       "found 'best_eror'; "
       "did "
       "you mean 'best_error'?"},
      {R"json({"rows": [{"layer": "BN"}],
          "claims": [{"claim": "x", "within": -1, "pairs": [["BN", "BN"]]}]})json",
       "my.json: claims[0]: within: expected a number from 0"},
      {R"json({"rows": [{"layer": "BN", "epochs": 0}]})json", "my.json: rows[0]: epochs: expected"},
      {R"json({"loss_share": 0, "rows": [{"layer": "BN"}]})json", "my.json: loss_share: expected"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_NE(complaint(text).find(expected), std::string::npos)
        << text << "\n  said: " << complaint(text);
  EXPECT_THROW(parse_json("{\n \"rows\": [,]}", "my.json"), std::invalid_argument);
  EXPECT_THROW(parse_json(std::string(1000, '['), "my.json"), std::invalid_argument);
  EXPECT_THROW(parse_json("{\"epochs\": 1e400}", "my.json"), std::invalid_argument);
  EXPECT_THROW(find_experiment("mnits"), std::invalid_argument);
}

TEST(Experiments, PatternsTakeNamesWithAndWithoutArguments) {
  EXPECT_TRUE(row_matches("ZCAE", "ZCAE(1e-7)"));
  EXPECT_TRUE(row_matches("ZCA*", "ZCAM(1e-5,c=1/10)"));
  EXPECT_TRUE(row_matches("ZCA_corr->W", "ZCA_corr(0)->W"));
  EXPECT_TRUE(row_matches("*->W", "BN->W"));
  EXPECT_FALSE(row_matches("BN", "BN->W"));
  EXPECT_FALSE(row_matches("ZCA", "ZCAM(1e-5)"));
}

TEST(Experiments, TheCommandLineChangesAllRows) {
  Experiment e = find_experiment("svhn");
  ExperimentChanges changes;
  changes.epochs = 2;
  changes.subset = 500;
  changes.seeds = 3;
  changes.rows = {"BN*"};
  apply(changes, e);
  ASSERT_EQ(e.rows.size(), 3u);
  for (const ExperimentRow& row : e.rows) {
    EXPECT_EQ(row.config.epochs, 2);
    EXPECT_EQ(row.config.subset, 500);
    EXPECT_EQ(row.seeds, (std::vector<uint64_t>{1, 2, 3}));
  }
  for (const ExperimentFigure& f : e.figures) EXPECT_NE(f.title, "All ZCA layers");
  ASSERT_EQ(e.claims.size(), 1u) << "the others are of rows that were left out";
  EXPECT_EQ(e.claims[0].text, "a rotation makes BN end better");
  changes.rows = {"nothing"};
  EXPECT_THROW(apply(changes, e), std::invalid_argument);
}

TEST(Experiments, FoldersOfRowsDiffer) {
  std::set<std::string> folders;
  size_t rows = 0;
  for (const char* name : {"svhn", "gradients"})
    for (const ExperimentRow& row : find_experiment(name).rows) {
      folders.insert(run_folder_path("out", row, 1));
      ++rows;
    }
  // BN, ZCA and the ten layers with both gradients are in both experiments: trained once.
  EXPECT_EQ(folders.size(), rows - 12);
}

}  // namespace
}  // namespace orthobatch
