// What a run is, without the trainer: its names, the lines of its metrics, its best epoch.

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "rooms.h"
#include "run/names.h"
#include "run/run_record.h"

namespace orthobatch {
namespace {

// As version 0.2 writes them.
constexpr const char* ended_line =
    R"-({"epoch":2,"steps":39,"images":9984,"learning_rate":0.125,"batch":256,"momentum":0.9,)-"
    R"-("alpha":0.905,"train_loss":0.0599429353307455,"curve":{"every":20,"loss":[2.3114,0.08689]},)-"
    R"-("train_error_percent":14.93389423076923,"test_loss":0.022181720142471224,)-"
    R"-("test_error_percent":0.1,"decision":{"slow":false,"action":"none","reason":)-"
    R"-("training loss 0.78679, the first"},"layers":[{"name":"block1.norm","spec":"PLDLP(1e-5)",)-"
    R"-("channels":16,"condition_number":1106.5295026308677,"effective_rank":2.8343733393259787,)-"
    R"-("floored":1,"null":2,"exchanges":3},{"name":"block2.norm","spec":"BN","channels":64,)-"
    R"-("condition_number":null,"effective_rank":31.5,"floored":0,"null":0,"exchanges":0}],)-"
    R"-("time":{"finished":"2026-11-17T12:23:59Z","train_seconds":8.757282251,)-"
    R"-("test_seconds":1.949198609,"images_per_second":1140.0797317980612,)-"
    R"-("waited_seconds":0.0,"waited_percent":0.0}})-";
constexpr const char* diverged_line =
    R"-({"epoch":1,"steps":4,"images":1024,"learning_rate":1000.0,"batch":256,"momentum":0.9,)-"
    R"-("alpha":0.9,"diverged":"loss nan","time":{"finished":"2026-11-17T12:23:59Z",)-"
    R"-("train_seconds":0.5}})-";

EpochRecord read(const std::string& line) { return epoch_from_json(nlohmann::json::parse(line)); }

std::string complaint(const nlohmann::json& line) {
  try {
    epoch_from_json(line);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(EpochRecord, IsTheSameLineByteForByteAfterReading) {
  for (const char* line : {ended_line, diverged_line}) EXPECT_EQ(to_json(read(line)).dump(), line);
}

TEST(EpochRecord, KnowsEveryMember) {
  const EpochRecord e = read(ended_line);
  EXPECT_EQ(e.settings.alpha, 0.905);
  EXPECT_EQ(e.curve, (std::vector<double>{2.3114, 0.08689}));
  EXPECT_EQ(e.test.error_percent, 0.1);
  EXPECT_EQ(e.layers.at(0).exchanges, 3);
  EXPECT_FALSE(e.layers.at(1).condition_number);
  EXPECT_FALSE(e.diverged);
  EXPECT_EQ(read(diverged_line).diverged, "loss nan");
}

TEST(EpochRecord, ANumberThatIsNotFiniteIsNull) {
  EpochRecord e = read(ended_line);
  e.test.loss = std::nullopt;
  EXPECT_TRUE(to_json(e).at("test_loss").is_null());
  EXPECT_FALSE(read(to_json(e).dump()).test.loss);
}

TEST(EpochRecord, AMistakeIsNamed) {
  const auto with = [](const char* key, const nlohmann::json& value) {
    nlohmann::json line = nlohmann::json::parse(ended_line);
    line[key] = value;
    return complaint(line);
  };
  EXPECT_EQ(with("epoch", 2.5), "epoch: expected an integer, 1 to 1000000, found 2.5");
  EXPECT_EQ(with("epoch", -1e12),
            "epoch: expected an integer, 1 to 1000000, found -1000000000000.0");
  EXPECT_EQ(with("train_loss", "x"), "train_loss: expected a number, found \"x\"");
  EXPECT_EQ(with("test_error_percent", 101), "test_error_percent: expected 0 to 100, found 101");
  EXPECT_EQ(with("layers", 3), "layers: expected a list, found 3");
  EXPECT_EQ(with("layers", {3}), "layers[0]: expected an object, found 3");
  EXPECT_EQ(with("batch", nullptr), "batch: expected a number, found null");
  EXPECT_EQ(with("time", "now"), "time: expected an object, found \"now\"");
}

TEST(BestEpoch, LeastErrorThenLeastLoss) {
  EXPECT_TRUE(better({1, 9.0}, {2, 0.1}));
  EXPECT_FALSE(better({2, 0.1}, {1, 9.0}));
  EXPECT_TRUE(better({1, 0.1}, {1, 0.2}));
  EXPECT_FALSE(better({1, 0.1}, {1, 0.1})) << "the first of equal ones stays";
  EXPECT_TRUE(better({1, 0.1}, {1, std::nullopt}));
  EXPECT_TRUE(better({1, 0.1}, {1, NAN}));
  EXPECT_FALSE(better({1, std::nullopt}, {1, 0.1}));
}

TEST(RunNames, AsTheyAlwaysWere) {
  EXPECT_EQ(run_name("mnist", "ZCAE(1e-7)", 1), "mnist-ZCAE_1e-7-seed1");
  EXPECT_EQ(run_name("svhn", "ZCA_corr(0)->W", 23), "svhn-ZCA_corr_0-W-seed23");
  EXPECT_EQ(run_name("svhn", "ZCAM(1e-5,c=1/10)->W->Gamma", 2),
            "svhn-ZCAM_1e-5_c_1_10-W-Gamma-seed2");
  EXPECT_EQ(run_name("mnist", "BN | BN | ZCA(1e-5)", 1), "mnist-BN_BN_ZCA_1e-5-seed1");
  EXPECT_EQ(run_name("mnist", "../a b/c", 1), "mnist-.._a_b_c-seed1");
}

TEST(RunNames, RowsInAnyScriptHaveFoldersOfTheirOwn) {
  const auto read_rows = [](const char* one, const char* other) {
    const nlohmann::json rows = {{{"layer", "BN"}, {"name", one}},
                                 {{"layer", "LDL(1e-5)"}, {"name", other}}};
    return experiment_from_json({{"rows", rows}}, "my", "my.json");
  };
  const Experiment e = read_rows("日本", "中国");
  EXPECT_NE(run_folder_path("out", e.rows[0], 1), run_folder_path("out", e.rows[1], 1));
  // ASCII names keep their folders, so two that make the same one cannot both be had.
  try {
    read_rows("A B", "A_B");
    FAIL() << "two rows in one folder";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "my.json: rows[1]: expected a name of its own (\"name\"), found 'A_B', whose runs "
                 "would be in the folders of rows[0], 'A B'");
  }
}

TEST(RunRecord, ReadsWhatIsWritten) {
  TemporaryFolder folder;
  const std::string line = ended_line;
  write_file(folder.path(metrics_name), line + "\n" + diverged_line + "\n");
  const RunRecord run = read_run(folder.path());
  ASSERT_EQ(run.epochs.size(), 1u);
  EXPECT_EQ(to_json(run.epochs[0]).dump(), line);
  ASSERT_TRUE(run.diverged);
  EXPECT_EQ(run.diverged->reason, "loss nan");
  EXPECT_EQ(run.best(), run.last());
}

}  // namespace
}  // namespace orthobatch
