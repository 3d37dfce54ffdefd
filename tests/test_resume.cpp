// Going on with a run: its files must be of one run, and are read once.

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "made_checkpoint.h"
#include "refusal.h"
#include "rooms.h"
#include "run/settings.h"
#include "small_run.h"

namespace orthobatch {
namespace {

using nlohmann::json;
using test::metrics_of;
using test::Session;
using test::small_config;

namespace fs = std::filesystem;

TrainConfig config_of_runs() {
  TrainConfig config = small_config("BN");
  config.epochs = 2;
  return config;
}

/// A run of two epochs; every test gets a copy.
class Resume : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TemporaryFolder;
    test::whole_run(shared_->path("run"), config_of_runs());
    TrainConfig other = config_of_runs();
    other.seed = 2;
    test::whole_run(shared_->path("other"), other);
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  void SetUp() override { fs::copy(shared_->path("run"), run()); }

  std::string run() const { return folder_.path("run"); }
  std::string in_run(const std::string& name) const { return join_path(run(), name); }
  static std::string in_other(const std::string& name) { return shared_->path("other/" + name); }

  void copy(const std::string& from, const std::string& to) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }
  void edit_config(const std::string& pointer, const json& value) {
    json config = json::parse(read_text(in_run("config.json")));
    config[json::json_pointer(pointer)] = value;
    write_file(in_run("config.json"), config.dump(2));
  }
  std::string refusal(const std::vector<Setting>& changes = {}) const {
    const RunFolder folder(run());
    try {
      open_run(folder, changes);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  void expect_refused(const std::string& with, const std::vector<Setting>& changes = {}) {
    std::map<std::string, std::string> before;
    for (const auto& entry : fs::directory_iterator(run()))
      if (entry.is_regular_file()) before[entry.path()] = read_text(entry.path().string(), 1 << 24);
    const std::string said = refusal(changes);
    EXPECT_NE(said.find(with), std::string::npos) << "expected: " << with << "\n  said: " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    for (const auto& [path, text] : before) EXPECT_EQ(read_text(path, 1 << 24), text) << path;
  }

  static TemporaryFolder* shared_;
  TemporaryFolder folder_;
};
TemporaryFolder* Resume::shared_ = nullptr;

TEST_F(Resume, TakesWhatTheRunLeft) {
  const RunFolder folder(run());
  const Resumption resumption = open_run(folder);
  EXPECT_EQ(resumption.complaint, "");
  EXPECT_EQ(resumption.checkpoint->state.epoch, 2);
  EXPECT_TRUE(resumption.changed.empty());
}

TEST_F(Resume, OpensTheLastCheckpointOnce) {
  Session session(run(), config_of_runs());
  const int watch = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(watch, 0);
  ASSERT_GE(::inotify_add_watch(watch, session.folder.last().c_str(), IN_OPEN | IN_CLOSE), 0);
  Resumption resumption = open_run(session.folder);
  session.trainer.resume(std::move(resumption));
  alignas(inotify_event) char buffer[4096];
  const ssize_t size = ::read(watch, buffer, sizeof buffer);
  ::close(watch);
  int opened = 0;
  for (ssize_t at = 0; at < size;) {
    const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
    opened += (event->mask & IN_OPEN) != 0;
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  EXPECT_EQ(opened, 1);
}

TEST_F(Resume, AnotherRunsLastCheckpointIsRefused) {
  copy(in_other("last.safetensors"), in_run("last.safetensors"));
  expect_refused("config.json: seed: expected 2 as in " + in_run("last.safetensors") +
                 ", found 1: they are of two runs");
}

TEST_F(Resume, AnEditedLearningRateOrSeedIsRefused) {
  edit_config("/schedule/learning_rate", 0.5);
  expect_refused("config.json: schedule.learning_rate: expected 0.125 as in ");
  expect_refused("found 0.5: a change is made with --set schedule.learning_rate=VALUE");
  edit_config("/schedule/learning_rate", 0.125);
  EXPECT_EQ(refusal(), "");
  edit_config("/seed", 7);
  expect_refused("config.json: seed: expected 1 as in ");
  edit_config("/seed", 1);
  edit_config("/blocks/0/layer", "LDL(1e-5)");
  expect_refused("config.json: blocks: expected ");
}

TEST_F(Resume, DataOfAnotherRunInConfigIsRefused) {
  edit_config("/found/train_images", 641);
  expect_refused("config.json: found.train_images: expected 640 as in ");
}

TEST_F(Resume, WhatDoesNotDecideTheNumbersMayBeEdited) {
  edit_config("/epochs", 3);
  edit_config("/threads", 2);
  edit_config("/augment_threads", 2);
  edit_config("/checkpoint_minutes", 1.5);
  const RunFolder folder(run());
  const Resumption resumption = open_run(folder);
  EXPECT_EQ(resumption.config.epochs, 3);
  EXPECT_EQ(resumption.config.checkpoint_minutes, 1.5);
  EXPECT_TRUE(resumption.changed.empty());
}

TEST_F(Resume, FewerEpochsThanWereMadeAreRefused) {
  expect_refused("epochs: expected 2 or more, which " + run() + " has made already, found 1",
                 {{"epochs", 1}});
}

TEST_F(Resume, AnotherRunsMetricsAreRefused) {
  copy(in_other("metrics.jsonl"), in_run("metrics.jsonl"));
  expect_refused("metrics.jsonl: lines: expected the epochs of " + in_run("last.safetensors") +
                 ", found others");
}

TEST_F(Resume, MetricsOfARunThatHasMadeNoEpochAreNotManyLines) {
  const TemporaryFolder fresh;
  {
    Session session(fresh.path("run"), config_of_runs());
    session.trainer.begin();
  }
  const RunFolder folder(fresh.path("run"));
  const std::string lines = read_text(in_other("metrics.jsonl"));
  write_file(folder.metrics(), lines.substr(0, lines.find('\n') + 1));  // an epoch that was lost
  EXPECT_NO_THROW(open_run(folder));
  write_file(folder.metrics(), lines + lines);
  EXPECT_THROW(open_run(folder), FileError);
}

TEST_F(Resume, MetricsThatLackAnEpochAreRefused) {
  const std::string whole = read_text(in_run("metrics.jsonl"));
  for (const size_t keep : {size_t{0}, whole.find('\n') + 1, whole.find('\n') + 30}) {
    write_file(in_run("metrics.jsonl"), whole.substr(0, keep));
    expect_refused("metrics.jsonl: lines: expected 2, the epochs that " +
                   in_run("last.safetensors") + " has made, found " + (keep == 0 ? "0" : "1"));
  }
  fs::remove(in_run("metrics.jsonl"));
  expect_refused("metrics.jsonl: lines: expected 2");
}

TEST_F(Resume, LinesBeyondTheCheckpointAreMadeAgain) {
  const std::string whole = read_text(in_run("metrics.jsonl"));
  write_file(in_run("metrics.jsonl"), whole + whole.substr(0, whole.find('\n') + 1));
  Session session(run(), config_of_runs());
  session.trainer.resume(open_run(session.folder));
  EXPECT_EQ(read_text(in_run("metrics.jsonl")), whole);
}

TEST_F(Resume, MetricsMayBeAheadOfThePreviousCheckpoint) {
  write_file(in_run("last.safetensors"), "damaged");
  const RunFolder folder(run());
  const Resumption resumption = open_run(folder);
  EXPECT_NE(resumption.complaint.find("last.safetensors"), std::string::npos);
  EXPECT_EQ(resumption.checkpoint->state.epoch, 1);
}

TEST_F(Resume, MetricsWithoutACheckpointAreNotWrittenOver) {
  for (const char* name : {"last.safetensors", "previous.safetensors"}) fs::remove(in_run(name));
  expect_refused("metrics.jsonl: file: expected a checkpoint beside it, found none");
  fs::remove(in_run("metrics.jsonl"));
  const RunFolder folder(run());
  EXPECT_FALSE(open_run(folder).checkpoint);
}

// Permissions do not bind root, so the file that cannot be read is one of another kind.
TEST_F(Resume, ALastCheckpointThatCannotBeReadIsNotPassedOver) {
  fs::remove(in_run("last.safetensors"));
  fs::create_directory(in_run("last.safetensors"));
  expect_refused("last.safetensors: ");
  fs::remove(in_run("last.safetensors"));
  fs::create_symlink("nowhere", in_run("last.safetensors"));
  expect_refused("last.safetensors: ");
  fs::remove(in_run("last.safetensors"));
  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, in_run("last.safetensors").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_refused("last.safetensors: ");
  ::close(server);
}

TEST_F(Resume, AnotherRunsBestIsRefused) {
  copy(in_other("best.safetensors"), in_run("best.safetensors"));
  expect_refused("config.json: seed: expected 2 as in " + in_run("best.safetensors") +
                 ", found 1: they are of two runs");
  EXPECT_THROW(read_best(run()), FileError);
  fs::remove(in_run("config.json"));
  EXPECT_NE(test::refused([&] {
              read_best(run());
            }).find("metrics.jsonl: lines: expected the epochs of " + in_run("best.safetensors")),
            std::string::npos);
  fs::remove(in_run("metrics.jsonl"));
  EXPECT_NO_THROW(read_best(run())) << "there is nothing to compare it with";
}

TEST_F(Resume, ABestThatTheHistoryDoesNotHaveIsRefused) {
  for (const char* name : {"last.safetensors", "previous.safetensors"}) {
    const std::string text = read_text(in_run(name), 1 << 24);
    const Bytes other = test::forged(text, [](Safetensors& file) {
      json state = json::parse(file.metadata.at("state"));
      state["best"]["test_error_percent"] = 0.5;
      file.metadata["state"] = state.dump();
    });
    write_file(in_run(name), other.data(), other.size());
  }
  expect_refused("last.safetensors: best: expected epoch ");
}

TEST_F(Resume, AMissingLastIsTold) {
  fs::remove(in_run("last.safetensors"));
  const RunFolder folder(run());
  const Resumption resumption = open_run(folder);
  EXPECT_EQ(resumption.complaint,
            folder.last() + ": file: expected the newest checkpoint, found none");
  EXPECT_EQ(resumption.checkpoint->state.epoch, 1);
}

// ------------------------------------------------------------------------ rules that stop a run

/// Goes on with the run and returns why it stopped early.
std::string go_on(const std::string& path, const std::vector<Setting>& changes = {}) {
  Resumption resumption;
  {
    const RunFolder folder(path);
    resumption = open_run(folder, changes);
  }
  Session session(path, resumption.config);
  session.trainer.resume(std::move(resumption));
  EXPECT_EQ(session.trainer.run(), Trainer::Outcome::finished);
  return session.trainer.stopped_early();
}

TEST_F(Resume, ATargetThatIsMetEndsTheRunAndChangesNoNumber) {
  TrainConfig config = config_of_runs();
  config.stop.target_error = 100;
  const std::string path = folder_.path("early");
  test::whole_run(path, config);
  ASSERT_EQ(metrics_of(path).size(), 1u);
  EXPECT_EQ(metrics_of(path)[0], metrics_of(run())[0]);
  EXPECT_NE(go_on(path), "") << "it is over";
  EXPECT_EQ(metrics_of(path).size(), 1u);
  EXPECT_EQ(go_on(path, {{"stop.target_error", 0}}), "");
  test::expect_same_run(path, run());
  EXPECT_FALSE(json::parse(read_text(path + "/config.json")).contains("changed"));
}

TEST_F(Resume, MoreEpochsLeadPastATargetThatWasMetHoweverOftenItIsKilled) {
  TrainConfig config = config_of_runs();
  config.stop.target_error = 100;
  const std::string path = folder_.path("early");
  test::whole_run(path, config);
  {
    const RunFolder folder(path);
    Resumption resumption = open_run(folder, {{"epochs", 3}});
    EXPECT_EQ(resumption.config.stop.from, 1);
    write_file(folder.config(), to_json(resumption.config).dump());  // and killed
  }
  edit_config("/epochs", 3);
  go_on(run());
  json written = json::parse(read_text(path + "/config.json"));
  written["found"] = json::parse(read_text(in_run("config.json"))).at("found");
  write_file(path + "/config.json", written.dump());
  EXPECT_EQ(go_on(path), "");
  test::expect_same_run(path, run());
}

TEST_F(Resume, PatienceEndsARunThatGetsNoBetter) {
  TrainConfig config = config_of_runs();
  config.epochs = 50;
  config.schedule.learning_rate = 1e-12;  // so that it stays as it is
  config.refresh_images = 0;
  config.stop.patience = 2;
  const std::string path = folder_.path("patient");
  test::whole_run(path, config);
  const size_t made = metrics_of(path).size();
  EXPECT_LT(made, 50u);
  EXPECT_NE(go_on(path).find("the patience is 2"), std::string::npos);
  EXPECT_EQ(metrics_of(path).size(), made);
  EXPECT_NE(go_on(path, {{"epochs", 51}}), "");
  EXPECT_GE(metrics_of(path).size(), made + 2) << "counted anew";
}

// ------------------------------------------------------------------------------- --set

TEST_F(Resume, ASettingIsChangedAndRecorded) {
  const std::vector<Setting> changes = {{"schedule.learning_rate", 0.0625}, {"epochs", 3}};
  Resumption resumption;
  {
    const RunFolder folder(run());
    resumption = open_run(folder, changes);
  }
  Session session(run(), resumption.config);
  session.trainer.resume(std::move(resumption));
  // Killed here: config.json has the change, no checkpoint has it yet.
  const json config = json::parse(read_text(in_run("config.json")));
  EXPECT_EQ(config.at("schedule").at("learning_rate"), 0.0625);
  EXPECT_EQ(config.at("changed"),
            json::parse(R"([{"epoch":2,"step":0,"from":{"schedule.learning_rate":0.125}}])"));
  Resumption again = open_run(session.folder);
  EXPECT_EQ(again.config.schedule.learning_rate, 0.0625);
  EXPECT_EQ(again.checkpoint->state.schedule.now.learning_rate, 0.0625);
  EXPECT_EQ(json(again.changed), config.at("changed"));
  Resumption other = open_run(session.folder, {{"schedule.learning_rate", 0.25}});
  EXPECT_EQ(other.changed.size(), 1u) << "a change that was not used is not recorded";
  EXPECT_EQ(session.trainer.run(), Trainer::Outcome::finished);
  EXPECT_EQ(metrics_of(run()).at(2).at("learning_rate"), 0.0625);
  const Resumption after = open_run(session.folder);
  EXPECT_EQ(after.checkpoint->config.schedule.learning_rate, 0.0625);
  EXPECT_EQ(json(after.changed), config.at("changed"));
}

TEST_F(Resume, AChangeMayBeMadeAfterAnEditOfTheSame) {
  edit_config("/schedule/learning_rate", 0.5);
  const RunFolder folder(run());
  const Resumption resumption = open_run(folder, {{"schedule.learning_rate", 0.25}});
  EXPECT_EQ(resumption.config.schedule.learning_rate, 0.25);
  EXPECT_EQ(json(resumption.changed).at(0).at("from"), json({{"schedule.learning_rate", 0.125}}));
}

TEST_F(Resume, ASettingOutOfRangeIsRefused) {
  expect_refused("schedule: momentum: expected 0 or more, below 1, found 2",
                 {{"schedule.momentum", 2}});
  expect_refused("schedule: momentum: expected a number, found \"fast\"",
                 {{"schedule.momentum", "fast"}});
}

TEST(Settings, AreReadFromTheCommandLine) {
  EXPECT_EQ(parse_setting("schedule.learning_rate=0.1").value, 0.1);
  EXPECT_EQ(parse_setting("head=average").value, "average");
  EXPECT_EQ(parse_setting("blocks=[{\"channels\":3}]").value, json::parse("[{\"channels\":3}]"));
  const auto said = [](const std::string& text, bool resuming = false) -> std::string {
    try {
      const Setting setting = parse_setting(text);
      if (resuming) require_changeable(setting);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  for (const char* text : {"epochs", "epochs=", "=3", ""})
    EXPECT_NE(said(text).find("--set: expected KEY=VALUE"), std::string::npos) << text;
  EXPECT_NE(said("schedule.lerning_rate=1").find("did you mean 'schedule.learning_rate'"),
            std::string::npos);
  EXPECT_NE(said("found.mean=1").find("--set: no setting 'found.mean'"), std::string::npos);
  for (const char* text : {"schedule.batch=3", "augment.rotation=3", "refresh_images=0", "epochs=3",
                           "checkpoint_minutes=2", "threads=2"})
    EXPECT_EQ(said(text, true), "") << text;
  for (const char* text : {"seed=3", "data=svhn", "blocks=[]", "layer=BN", "head=max", "subset=3"})
    EXPECT_NE(said(text, true).find("cannot be changed once a run has begun"), std::string::npos)
        << text;
}

}  // namespace
}  // namespace orthobatch
