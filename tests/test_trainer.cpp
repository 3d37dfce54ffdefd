// Runs: the same twice, the same after a stop at any step.

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "io/file.h"
#include "io/temporary_folder.h"
#include "rooms.h"
#include "small_run.h"
#include "train/trainer.h"

namespace orthobatch {
namespace {

using test::expect_same_run;
using test::metrics_of;
using test::Session;
using test::small_config;
using test::small_data;
using test::whole_run;

TEST(Trainer, LearnsAndRecords) {
  const TemporaryFolder folder;
  const TrainConfig config = small_config();
  whole_run(folder.path("a"), config);
  const auto metrics = metrics_of(folder.path("a"));
  ASSERT_EQ(metrics.size(), 4u);
  EXPECT_LT(metrics[3].at("train_loss"), metrics[0].at("train_loss"));
  EXPECT_LT(metrics[3].at("test_error_percent"), 75.0);  // 90 is chance
  EXPECT_EQ(metrics[0].at("images"), 640);
  EXPECT_EQ(metrics[0].at("layers").size(), 2u);
  EXPECT_EQ(metrics[0].at("layers")[0].at("name"), "block1.norm");
  EXPECT_GE(metrics[0].at("layers")[0].at("condition_number"), 1.0);
  EXPECT_TRUE(metrics[1].at("decision").at("slow").get<bool>());
  EXPECT_EQ(metrics[2].at("batch"), 128);
  EXPECT_GT(metrics[1].at("alpha"), metrics[0].at("alpha"));
  const auto json = nlohmann::json::parse(std::ifstream(folder.path("a/config.json")));
  for (const char* key : {"version", "seed", "threads", "schedule", "blocks", "found"})
    EXPECT_TRUE(json.contains(key)) << key;
}

TEST(Trainer, TheSameSeedGivesTheSameRun) {
  const TemporaryFolder folder;
  TrainConfig config = small_config("ZCAE(1e-7)");
  config.epochs = 2;
  whole_run(folder.path("a"), config);
  config.augment_threads = 2;
  whole_run(folder.path("b"), config);
  expect_same_run(folder.path("a"), folder.path("b"));
  config.seed = 2;
  whole_run(folder.path("c"), config);
  EXPECT_NE(metrics_of(folder.path("a")), metrics_of(folder.path("c")));
}

/// S after the first step, in which it moves from 0 by the learning rate times its gradient.
torch::Tensor skew_after_a_step(const std::string& path, double factor) {
  TrainConfig config = small_config("BN->W");
  config.schedule.batch = config.schedule.max_batch = 640;
  config.schedule.skew_factor = factor;
  config.epochs = 1;
  whole_run(path, config);
  const Checkpoint checkpoint = read_checkpoint(path + "/last.safetensors");
  return checkpoint.net->named_parameters()["block1.norm.skew"].detach().clone();
}

TEST(Trainer, SHasALearningRateOfItsOwn) {
  const TemporaryFolder folder;
  const torch::Tensor whole = skew_after_a_step(folder.path("whole"), 1);
  const torch::Tensor half = skew_after_a_step(folder.path("half"), 0.5);
  EXPECT_GT(whole.abs().max().item<double>(), 0);
  EXPECT_TRUE(half.mul(2).allclose(whole, 1e-5, 0));
  EXPECT_EQ(skew_after_a_step(folder.path("none"), 0).abs().max().item<double>(), 0);
}

/// Asks a run to stop while it computes its n-th loss from now on, in a step or an evaluation.
class StopAtLoss {
 public:
  StopAtLoss(std::atomic<bool>& stop, int n) {
    flag = &stop;
    left = n;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_operation));
  }
  ~StopAtLoss() { at::removeCallback(handle_); }
  StopAtLoss(const StopAtLoss&) = delete;
  StopAtLoss& operator=(const StopAtLoss&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> on_operation(const at::RecordFunction& operation) {
    if (std::string(operation.name()) == "aten::cross_entropy_loss" && --left == 0) *flag = true;
    return nullptr;
  }

  static inline std::atomic<bool>* flag;  // a callback takes no state
  static inline int left;
  at::CallbackHandle handle_;
};

TEST(Trainer, StoppedAnywhereItGoesOnAsIfNot) {
  const TemporaryFolder folder;
  const TrainConfig config = small_config("LDL(1e-5)->W->Gamma");
  whole_run(folder.path("whole"), config);
  const std::string path = folder.path("stopped");
  int sessions = 0;
  std::set<int64_t> steps;  // made in the epoch under way when a session ended
  for (bool finished = false; !finished; ++sessions) {
    ASSERT_LT(sessions, 40);
    Session session(path, config);
    if (sessions == 0)
      session.trainer.begin();
    else
      session.trainer.resume(open_run(session.folder));
    // In the first session at the last of the epoch's ten steps: the evaluation is still to come.
    const StopAtLoss stop(session.stop, sessions == 0 ? 10 : 1 + sessions % 4);
    finished = session.trainer.run() == Trainer::Outcome::finished;
    if (!finished) steps.insert(read_checkpoint(session.folder.last()).state.step);
  }
  EXPECT_GT(sessions, 8);
  EXPECT_EQ(steps.count(10), 1U) << "never between the last step and the evaluation";
  EXPECT_EQ(steps.count(0), 1U) << "never after an evaluation";
  EXPECT_GT(steps.size(), 4U) << "never in the middle of an epoch";
  expect_same_run(folder.path("whole"), path);
}

TEST(Trainer, KeepsThePreviousCheckpoint) {
  const TemporaryFolder folder;
  TrainConfig config = small_config();
  whole_run(folder.path("a"), config);
  EXPECT_EQ(read_checkpoint(folder.path("a/last.safetensors")).state.epoch, 4);
  EXPECT_EQ(read_checkpoint(folder.path("a/previous.safetensors")).state.epoch, 3);
  const auto best = read_checkpoint(folder.path("a/best.safetensors")).state;
  EXPECT_EQ(best.epoch, best.best.epoch);
  // From the previous one the last epoch comes out the same.
  whole_run(folder.path("b"), config);
  write_file(folder.path("b/last.safetensors"), "not a checkpoint");
  Session session(folder.path("b"), config);
  Resumption run = open_run(session.folder);
  EXPECT_NE(run.complaint.find("b/last.safetensors: "), std::string::npos) << run.complaint;
  ASSERT_EQ(run.checkpoint->path, session.folder.previous());
  session.trainer.resume(std::move(run));
  EXPECT_EQ(session.trainer.run(), Trainer::Outcome::finished);
  expect_same_run(folder.path("a"), folder.path("b"));
}

TEST(Trainer, ACheckpointThatIsALinkIsReplacedNotFollowed) {
  const TemporaryFolder folder;
  TrainConfig config = small_config("BN");
  config.epochs = 1;
  make_directories(folder.path("a"));
  for (const char* name : {"a/last.safetensors", "a/best.safetensors", "a/next.safetensors"}) {
    write_file(folder.path("mine"), "mine");
    std::filesystem::create_symlink(folder.path("mine"), folder.path(name));
  }
  whole_run(folder.path("a"), config);
  EXPECT_EQ(read_text(folder.path("mine")), "mine");
  EXPECT_EQ(read_checkpoint(folder.path("a/best.safetensors")).state.epoch, 1);
}

TEST(Trainer, OneProcessAFolder) {
  const TemporaryFolder folder;
  const RunFolder first(folder.path("a"));
  EXPECT_THROW(RunFolder(folder.path("a")), FileError);
}

TEST(Trainer, RefusesOtherData) {
  const TemporaryFolder folder;
  TrainConfig config = small_config();
  config.epochs = 1;
  whole_run(folder.path("a"), config);
  DataSet other = small_data();
  other.train.keep_first(600);
  Progress progress;
  const std::atomic<bool> stop{false};
  const RunFolder run(folder.path("a"));
  Trainer trainer(config, other, &run, progress, stop);
  try {
    trainer.resume(open_run(run));
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("expected"), std::string::npos) << error.what();
  }
}

TEST(Trainer, ADivergedRunSaysSo) {
  const TemporaryFolder folder;
  TrainConfig config = small_config("BN");
  config.schedule.learning_rate = 1e30;
  Session session(folder.path("a"), config);
  session.trainer.begin();
  EXPECT_THROW(session.trainer.run(), Diverged);
  const auto metrics = metrics_of(folder.path("a"));
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_TRUE(metrics[0].contains("diverged"));
  EXPECT_FALSE(metrics[0].contains("test_error_percent"));
}

TEST(Trainer, ARunThatBlowsUpBetweenStepsDiverged) {
  for (const char* layer : {"BN", "ZCA(1e-5)", "LDL(1e-5)"})
    for (const int64_t refresh_images : {0, 200}) {
      const TemporaryFolder folder;
      TrainConfig config = small_config(layer);
      config.schedule.learning_rate = 1e30;
      config.schedule.batch = config.schedule.max_batch = 640;  // one step an epoch
      config.refresh_images = refresh_images;
      Session session(folder.path("a"), config);
      session.trainer.begin();
      try {
        session.trainer.run();
        ADD_FAILURE() << layer;
      } catch (const Diverged& error) {
        EXPECT_NE(std::string(error.what()).find("epoch 1, after its last step"), std::string::npos)
            << error.what();
      }
      const auto metrics = metrics_of(folder.path("a"));
      ASSERT_EQ(metrics.size(), 1u);
      EXPECT_TRUE(metrics[0].contains("diverged"));
      EXPECT_FALSE(metrics[0].contains("test_error_percent"));
    }
}

TEST(Trainer, ABatchBeyondTheDataIsRecordedAsItWas) {
  const TemporaryFolder folder;
  TrainConfig config = small_config("BN");
  config.schedule.batch = config.schedule.max_batch = 1000000;
  config.epochs = 1;
  whole_run(folder.path("a"), config);
  EXPECT_EQ(metrics_of(folder.path("a")).at(0).at("batch"), 640);
}

TEST(Trainer, WithoutACheckpointNoneIsCalledIntact) {
  const TemporaryFolder folder;
  Session session(folder.path("a"), small_config("BN"));
  make_directories(session.folder.last() + "/in the way");
  try {
    session.trainer.begin();
    FAIL();
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("intact"), std::string::npos) << text;
    EXPECT_EQ(text.find("space"), std::string::npos) << text;
    EXPECT_NE(text.find("repair that, then train --resume " + folder.path("a")), std::string::npos)
        << text;
  }
}

TEST(Trainer, LeftoversGoAndWhatIsTheUsersStays) {
  const TemporaryFolder folder;
  make_directories(folder.path("a"));
  write_file(folder.path("a/notes.tmp"), "mine");
  write_file(folder.path("a/metrics.jsonl.tmp0123456789abcdef"), "half");
  const RunFolder run(folder.path("a"));
  EXPECT_TRUE(file_exists(folder.path("a/notes.tmp")));
  EXPECT_FALSE(file_exists(folder.path("a/metrics.jsonl.tmp0123456789abcdef")));
}

TEST(Trainer, EventFilesNeverGoThroughALinkNorIntoOneAnother) {
  const TemporaryFolder folder;
  const EventWriter first(folder.path(), 0), second(folder.path(), 1);
  EXPECT_NE(first.path(), second.path());
}

TEST(Trainer, TheBatchThatIsToldIsTheOneThatIsUsed) {
  TrainConfig config = test::small_config("BN");
  config.schedule.batch = 512;
  config.schedule.max_batch = 2048;
  config.schedule.learning_rate = 1e-6;  // so that learning is slow
  const TemporaryFolder folder;
  test::whole_run(folder.path("run"), config);
  const auto lines = test::metrics_of(folder.path("run"));  // of 640 images
  EXPECT_EQ(lines.at(1).at("decision").at("action"), "batch 512 -> 640, learning rate 1e-6 -> 7.5e-7");
  EXPECT_EQ(lines.at(2).at("batch"), 640);
  EXPECT_EQ(lines.at(2).at("decision").at("action").get<std::string>().find("batch"),
            std::string::npos);
}

}  // namespace
}  // namespace orthobatch
