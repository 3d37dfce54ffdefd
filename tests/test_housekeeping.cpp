// Runs as they are kept: when they stop early, how they are listed, settings by name.

#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cli/run_list.h"
#include "cli/terminal.h"
#include "report/table.h"
#include "report_folder.h"
#include "rooms.h"
#include "run/settings.h"

namespace orthobatch::cli {
namespace {

using nlohmann::json;

std::vector<EpochRecord> epochs_with(const std::vector<double>& errors) {
  std::vector<EpochRecord> out;
  for (const double error : errors) out.push_back(epoch(static_cast<int>(out.size()) + 1, error));
  return out;
}

std::string what_is_said(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// ------------------------------------------------------------------------------- stopping early

TEST(StopRules, WithoutRulesARunNeverStops) {
  EXPECT_EQ(stop_reason({}, epochs_with({5, 5, 5, 5, 0})), "");
}

TEST(StopRules, TheTargetIsMetByAnEpochAtOrBelowIt) {
  const StopRules rules{1.0, 0, 0};
  EXPECT_EQ(stop_reason(rules, {}), "");
  EXPECT_EQ(stop_reason(rules, epochs_with({3, 1.01})), "");
  EXPECT_EQ(stop_reason(rules, epochs_with({3, 1})),
            "test error 1.00 % of epoch 2 is within the target of 1 %");
  EXPECT_NE(stop_reason(rules, epochs_with({3, 0.5, 2})), "") << "it was met before";
  EXPECT_NE(stop_reason({0.0, 0, 0}, epochs_with({0})), "") << "a target of 0 is one";
}

TEST(StopRules, PatienceCountsEpochsAfterTheBest) {
  const StopRules rules{std::nullopt, 2, 0};
  EXPECT_EQ(stop_reason(rules, epochs_with({3, 2, 2.5})), "");
  EXPECT_EQ(stop_reason(rules, epochs_with({3, 2, 2.5, 2.2})),
            "no epoch better than epoch 2 for 2, the patience is 2");
  EXPECT_EQ(stop_reason(rules, epochs_with({3, 2, 2.5, 1.9})), "") << "a better one came";
  std::vector<EpochRecord> by_loss = epochs_with({2, 2, 2});
  by_loss[2].test.loss =
      0.001;  // the same error and a lower loss is better, as for best.safetensors
  EXPECT_EQ(stop_reason(rules, by_loss), "");
}

TEST(StopRules, WhoGoesOnHasTheTargetBehindHimAndHisPatienceAnew) {
  EXPECT_EQ(stop_reason({1.0, 0, 2}, epochs_with({3, 0.9, 0.8, 0.7})), "");
  EXPECT_NE(stop_reason({0.75, 0, 2}, epochs_with({3, 0.9, 0.8, 0.7})), "") << "a lower one counts";
  EXPECT_EQ(stop_reason({std::nullopt, 2, 3}, epochs_with({1, 2, 2, 2})), "");
  EXPECT_NE(stop_reason({std::nullopt, 2, 3}, epochs_with({1, 2, 2, 2, 2})), "");
}

TEST(StopRules, AreTakenBackByNull) {
  TrainConfig config = paper_config("mnist", "BN");
  const std::string without = to_json(config).dump();
  config.stop = {0.0, 4, 7};
  const TrainConfig read = config_from_json(to_json(config), "t");
  EXPECT_EQ(read.stop.target_error, 0.0);
  EXPECT_EQ(read.stop.patience, 4);
  EXPECT_EQ(read.stop.from, 7);
  EXPECT_EQ(deciding_settings(config), deciding_settings(paper_config("mnist", "BN")));
  json object = to_json(config);
  for (const char* text : {"stop.target_error=null", "stop.patience=null", "stop.from=null"})
    apply_setting(parse_setting(text), object);
  EXPECT_EQ(to_json(config_from_json(object, "t")).dump(), without);
}

TEST(StopRules, MistakesAreNamed) {
  const auto refusal = [](const json& stop) {
    return what_is_said([&] {
      TrainConfig config = config_from_json({{"stop", stop}}, "t");
      check_config(config);
    });
  };
  EXPECT_EQ(refusal({{"target_error", 101}}),
            "t: stop: target_error: expected 0 to 100, found 101");
  EXPECT_EQ(refusal({{"patience", 1000000}}),
            "t: stop: patience: expected an integer, 0 to 100000, found 1000000");
  EXPECT_NE(refusal({{"patience", 1.5}}).find("patience: expected an integer"), std::string::npos);
  EXPECT_NE(refusal({{"pacience", 3}}).find("did you mean 'patience'?"), std::string::npos);
}

TEST(StopRules, ARunTheyEndedCountsInAReport) {
  Folder folder(R"([{"layer": "BN", "seeds": [1, 2], "settings": {"stop": {"target_error": 1}}}])");
  folder.write(0, line(1, 3) + line(2, 0.8), 1);
  folder.write(0, three(2), 2);
  const RowResult row = folder.read().rows.at(0);
  EXPECT_EQ(row.status, RowResult::Status::done);
  EXPECT_TRUE(row.finished);
  EXPECT_EQ(row.best_error.n, 2);
  EXPECT_EQ(row.remark, "stopped early, after 2 of 3 epochs (seed 1)");
  EXPECT_TRUE(read_run(folder.run(0, 1)).finished());
  EXPECT_NE(read_run(folder.run(0, 1)).stopped_early, "");
  EXPECT_EQ(read_run(folder.run(0, 2)).stopped_early, "") << "that one made all its epochs";
}

// --------------------------------------------------------------------------------- settings

/// Another value of the same kind, in range.
json other_value(const std::string& key, const json& value) {
  if (key == "data") return "synthetic";
  if (key == "head") return "max";
  if (key == "padding") return "same";
  if (key == "image_size") return "8x8";
  if (key == "blocks") return json::parse(R"([{"fov":3,"stride":1,"channels":4,"layer":"BN"}])");
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>() + 1;
  return value.get<double>() / 2 + 0.01;
}

TEST(Settings, EveryMemberOfAConfigCanBeSetByName) {
  TrainConfig full = paper_config("mnist", "BN");
  full.stop = {1, 1, 1};
  const json before = to_json(full);
  int count = 0;
  const auto expect_set = [&](const std::string& key, const json& value) {
    const json wanted = other_value(key, value);
    json changed = before;
    apply_setting(parse_setting(key + "=" + wanted.dump()), changed);
    const json after = to_json(config_from_json(changed, "t"));
    const std::string pointer =
        "/" + std::string(key).replace(std::min(key.find('.'), key.size()),
                                       key.find('.') == std::string::npos ? 0 : 1,
                                       key.find('.') == std::string::npos ? "" : "/");
    EXPECT_EQ(after.at(json::json_pointer(pointer)), wanted) << key;
    EXPECT_EQ(differences(before, after).size(), 1u) << key;
    ++count;
  };
  for (const auto& [key, value] : before.items()) {
    if (!value.is_object()) {
      expect_set(key, value);
      continue;
    }
    for (const auto& inner : value.items()) expect_set(key + "." + inner.key(), inner.value());
  }
  EXPECT_GE(count, 35);
}

TEST(Settings, AMisspeltOneGetsASuggestion) {
  const auto refusal = [](const std::string& text) {
    return what_is_said([&] { parse_setting(text); });
  };
  EXPECT_NE(refusal("schedule.momentun=0.5").find("did you mean 'schedule.momentum'?"),
            std::string::npos);
  EXPECT_NE(refusal("stop.target_eror=1").find("did you mean 'stop.target_error'?"),
            std::string::npos);
  EXPECT_NE(refusal("refresh_image=2").find("did you mean 'refresh_images'?"), std::string::npos);
}

// -------------------------------------------------------------------------------------- listing

class RunList : public testing::Test {
 protected:
  std::string make_run(const std::string& name, const std::string& metrics,
                       const TrainConfig& config = paper_config("synthetic", "BN")) {
    const std::string path = folder_.path(name);
    make_directories(path);
    TrainConfig three_epochs = config;
    three_epochs.epochs = 3;
    write_file(join_path(path, config_name), to_json(three_epochs).dump());
    if (!metrics.empty()) write_file(join_path(path, metrics_name), metrics);
    return path;
  }
  static std::string state(const std::string& path) { return state_text(look_at_run(path).state); }

  TemporaryFolder folder_;
};

TEST_F(RunList, EveryStateIsTold) {
  EXPECT_EQ(state(make_run("whole", three(2))), "finished");
  EXPECT_EQ(state(make_run("part", line(1, 2))), "stopped");
  EXPECT_EQ(state(make_run("fresh", "")), "empty");
  EXPECT_EQ(state(make_run("blown", line(1, 2) + diverged_line(2))), "diverged");
  const std::string failed = make_run("failed", line(1, 2));
  write_file(join_path(failed, failed_name), "no room\n");
  EXPECT_EQ(state(failed), "failed");
  EXPECT_EQ(look_at_run(failed).notes, std::vector<std::string>{"failed: no room"});
  TrainConfig early = paper_config("synthetic", "BN");
  early.stop.target_error = 2;
  const ListedRun stopped_early = look_at_run(make_run("early", line(1, 2), early));
  EXPECT_EQ(stopped_early.state, RunState::finished);
  EXPECT_EQ(stopped_early.notes.size(), 1u);
}

TEST_F(RunList, DamageIsNamedAndTheRestIsThere) {
  const std::string config = make_run("config", three(2));
  write_file(join_path(config, config_name), "{");
  const ListedRun bad_config = look_at_run(config);
  EXPECT_EQ(bad_config.state, RunState::damaged);
  EXPECT_EQ(bad_config.notes.at(0).rfind("config.json", 0), 0u) << bad_config.notes.at(0);
  EXPECT_EQ(bad_config.record.best()->test.error_percent, 2);
  EXPECT_TRUE(to_json(bad_config).at("layer").is_null());

  const ListedRun bad_line = look_at_run(make_run("line", line(1, 2) + "{\n" + line(3, 1)));
  EXPECT_EQ(bad_line.state, RunState::damaged);
  EXPECT_EQ(bad_line.record.best()->epoch, 3);

  const std::string lost = make_run("lost", "");
  write_file(join_path(lost, last_name), "a checkpoint");
  EXPECT_EQ(look_at_run(lost).notes, std::vector<std::string>{"metrics.jsonl: there is none"});
}

TEST_F(RunList, ALockedRunIsRunningAndLookingLeavesItUnlocked) {
  const std::string path = make_run("run", line(1, 2));
  EXPECT_EQ(state(path), "stopped") << "no lock, no process";
  const Descriptor lock = open_own_file(join_path(path, lock_name));
  EXPECT_EQ(state(path), "stopped") << "a lock that a killed process left";
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(state(path), "running");
  ASSERT_EQ(::flock(lock.get(), LOCK_UN), 0);
  EXPECT_EQ(state(path), "stopped");
  EXPECT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0) << "looking kept the lock";
}

TEST_F(RunList, RunsAreFoundAtAnyDepthAndLinksNotFollowed) {
  const std::string a = make_run("a", three(2)), b = make_run("deep/er/b", three(1));
  std::filesystem::create_directory_symlink(folder_.path(), folder_.path("deep/loop"));
  make_directories(folder_.path("nothing"));
  EXPECT_EQ(find_runs(folder_.path()), (std::vector<std::string>{a, b}));
  EXPECT_EQ(find_runs(a), std::vector<std::string>{a});
  EXPECT_NE(what_is_said([&] { find_runs(folder_.path("nowhere")); }).find("found nothing"),
            std::string::npos);
}

TEST_F(RunList, SortsWithNothingLast) {
  std::vector<ListedRun> runs = {look_at_run(make_run("none", "")),
                                 look_at_run(make_run("two", three(2))),
                                 look_at_run(make_run("one", line(1, 1) + line(2, 5)))};
  const auto order = [&](const std::string& by) {
    sort_runs(runs, by);
    std::string names;
    for (const ListedRun& run : runs)
      names += std::filesystem::path(run.path()).filename().string() + " ";
    return names;
  };
  EXPECT_EQ(order("best"), "one two none ");
  EXPECT_EQ(order("last"), "two one none ");
  EXPECT_EQ(order("name"), "none one two ");
  EXPECT_EQ(order("epochs"), "two one none ");
  for (const std::string& name : run_orders()) EXPECT_NO_THROW(sort_runs(runs, name)) << name;
}

TEST(Terminal, ProgressFitsItsWidth) {
  const Progress::Moment m{12, 30, 45, 100, 12345, 0.1234, 12.34, 34, 364, 60};
  const std::string whole = progress_text(m, std::nullopt, 0);
  EXPECT_EQ(
      whole,
      "epoch 12/30  45 %  loss 0.1234  error 12.34 %  12345 images/s  left: epoch 0:34, run 6:04");
  const Progress::Overall overall{12, 20, 100, 60};
  for (const size_t width : {40, 60, 79, 120, 200})
    for (const bool several : {false, true}) {
      const auto all = several ? std::optional(overall) : std::nullopt;
      const std::string text = progress_text(m, all, width);
      EXPECT_NE(text.find("45 %"), std::string::npos);
      EXPECT_NE(text.find("left: epoch 0:34, run 6:04"), std::string::npos);
      EXPECT_LE(text.size(), std::max<size_t>(width, 79));
      EXPECT_EQ(text.find(", all 1:46:04") != std::string::npos, several);
    }
  EXPECT_NE(progress_text(m, overall, 79).find("loss"), std::string::npos);
}

TEST_F(RunList, JsonHasNullForWhatIsNot) {
  EpochRecord e = epoch(1, 2);
  e.test.loss = std::nullopt;
  const json out = to_json(look_at_run(make_run("run", text_of(e))));
  EXPECT_TRUE(out.at("best").at("test_loss").is_null());
  EXPECT_EQ(out.at("best").at("test_error_percent"), 2);
  EXPECT_EQ(out.at("epochs"), 1);
  EXPECT_EQ(out.at("epochs_wanted"), 3);
  EXPECT_EQ(out.at("seconds_per_epoch"), 2);
  EXPECT_TRUE(to_json(look_at_run(make_run("fresh", ""))).at("best").is_null());
}

// --------------------------------------------------------------------------------------- tables

TEST(Table, IsCutWhereItMayBeAndNoCharacterIsBroken) {
  const TextRows rows = {{"a long name of a run", "BN"}, {"日本語の名前です、長い", "0.35"}};
  EXPECT_EQ(format_fitted_table(rows, 80, {0}), format_table(rows));
  EXPECT_EQ(format_fitted_table(rows, 16, {0}), "a lo.. run  BN\n日本語の..す、長い  0.35\n");
  EXPECT_EQ(format_fitted_table(rows, 13, {0}), "a lo.. run  B\n日本語の..す、長い  0\n");
}

}  // namespace
}  // namespace orthobatch::cli
