// The paper's rules, and configs good and bad.

#include <gtest/gtest.h>

#include "io/json_fields.h"
#include "rooms.h"
#include "run/config.h"
#include "train/schedule.h"

namespace orthobatch {
namespace {

/// The paper's column, with learning called slow below 5 % in one epoch.
ScheduleRules rules_of(const std::string& data) {
  ScheduleRules rules = paper_config(data, "BN").schedule;
  rules.slow_improvement = 0.05;
  rules.slow_epochs = 1;
  rules.slow_after = 0;
  return rules;
}

/// Numbers the epochs.
class Counted : public Schedule {
 public:
  using Schedule::Schedule;
  Decision finish_epoch(double loss) { return Schedule::finish_epoch(++epoch_, loss); }

 private:
  int64_t epoch_ = 0;
};

TEST(Config, ReadsTheNetsOptions) {
  const auto read = [](const char* text) {
    return config_from_json(parse_json(text, "my.json"), "my.json");
  };
  const TrainConfig config =
      read(R"json({"data": "mnist", "layer": "PLDLP(1e-5)", "head": "max", "fold": false})json");
  EXPECT_EQ(config.net.head, Head::max);
  EXPECT_EQ(config.net.padding, Padding::valid);
  EXPECT_EQ(config.net.blocks[0].layer, "PLDLP(1e-5)");
  EXPECT_FALSE(config.net.fold);
  EXPECT_TRUE(read("{}").net.fold);
  EXPECT_THROW(read(R"({"head": "flatt"})"), std::invalid_argument);
  EXPECT_FALSE(decides_numbers("fold"));  // no more than the number of threads
}

TEST(Schedule, MnistColumn) {
  Counted s(rules_of("mnist"));
  EXPECT_EQ(s.now().batch, 256);
  EXPECT_EQ(s.now().learning_rate, 0.125);
  EXPECT_EQ(s.now().momentum, 0.9);
  EXPECT_FALSE(s.finish_epoch(1.0).slow);
  EXPECT_FALSE(s.finish_epoch(0.9).slow);
  double rate = 0.125;
  for (const int64_t batch : {512, 1024, 2048}) {
    EXPECT_TRUE(s.finish_epoch(0.89).slow);  // 1.1 % below 0.9, less than 5 %
    rate *= 0.75;
    EXPECT_EQ(s.now().batch, batch);
    EXPECT_DOUBLE_EQ(s.now().learning_rate, rate);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(s.finish_epoch(0.89).slow);
    rate *= 0.5;
    EXPECT_EQ(s.now().batch, 2048);
    EXPECT_DOUBLE_EQ(s.now().learning_rate, rate);
    EXPECT_EQ(s.now().momentum, 0.9);
  }
}

TEST(Schedule, SvhnColumn) {
  Counted s(rules_of("svhn"));
  s.finish_epoch(1.0);
  for (const int64_t batch : {512, 1024}) {
    EXPECT_TRUE(s.finish_epoch(1.0).slow);
    EXPECT_EQ(s.now().batch, batch);
    EXPECT_EQ(s.now().learning_rate, 0.125);
    EXPECT_EQ(s.now().momentum, 0.9);
  }
  const Decision d = s.finish_epoch(1.0);
  EXPECT_EQ(s.now().learning_rate, 0.0625);
  EXPECT_EQ(s.now().momentum, 0.5);
  EXPECT_EQ(d.action, "learning rate 0.125 -> 0.0625, momentum 0.9 -> 0.5");
  s.finish_epoch(1.0);
  EXPECT_EQ(s.now().learning_rate, 0.03125);
  EXPECT_EQ(s.now().batch, 1024);
}

TEST(Schedule, SaysWhy) {
  Counted s(rules_of("mnist"));
  s.finish_epoch(0.5);
  const Decision enough = s.finish_epoch(0.4);
  EXPECT_EQ(enough.action, "none");
  EXPECT_EQ(enough.reason, "training loss 0.4 is 20.00 % below 0.5, not less than 5 %");
  const Decision slow = s.finish_epoch(0.42);
  EXPECT_EQ(slow.reason, "training loss 0.42 is 5.00 % above 0.4, less than 5 %");
  EXPECT_EQ(slow.action, "batch 256 -> 512, learning rate 0.125 -> 0.09375");
}

TEST(Schedule, PatienceCountsEpochsInARow) {
  ScheduleRules rules = rules_of("mnist");
  rules.slow_epochs = 2;
  Counted s(rules);
  s.finish_epoch(1.0);
  EXPECT_FALSE(s.finish_epoch(1.0).slow);
  EXPECT_FALSE(s.finish_epoch(0.5).slow);  // improved: counted anew
  EXPECT_FALSE(s.finish_epoch(0.5).slow);
  EXPECT_TRUE(s.finish_epoch(0.5).slow);
}

TEST(Schedule, AlphaGrowsToItsEnd) {
  Counted s(rules_of("mnist"));
  double before = 0;
  for (int epoch = 0; epoch < 100; ++epoch) {
    EXPECT_GE(s.now().alpha, before);
    before = s.now().alpha;
    s.finish_epoch(1.0 / (epoch + 1));
  }
  EXPECT_EQ(before, 0.98);
  EXPECT_EQ(Schedule(rules_of("mnist")).now().alpha, 0.9);
}

TEST(Schedule, RestoredGoesOnAsItWas) {
  Counted a(rules_of("svhn"));
  for (const double loss : {1.0, 0.8, 0.79, 0.7, 0.69}) a.finish_epoch(loss);
  Counted b(rules_of("svhn"));
  b.restore(a.state());
  for (const double loss : {0.68, 0.5, 0.49}) {
    EXPECT_EQ(a.finish_epoch(loss).action, b.finish_epoch(loss).action);
    EXPECT_EQ(a.now().learning_rate, b.now().learning_rate);
    EXPECT_EQ(a.now().alpha, b.now().alpha);
  }
}

TEST(Schedule, LearningRateStopsAtItsLeast) {
  ScheduleRules rules = rules_of("mnist");
  rules.min_learning_rate = 0.01;
  Counted s(rules);
  for (int i = 0; i < 40; ++i) s.finish_epoch(1.0);
  EXPECT_EQ(s.now().learning_rate, 0.01);
  EXPECT_NE(s.finish_epoch(1.0).action.find("none"), std::string::npos);
}

// Whatever the training loss does: halve in every epoch, stand still, go up and down.
TEST(Schedule, TheRateFallsFourTimesInTheEpochsOfADataSet) {
  for (const char* data : {"mnist", "svhn", "fashion-mnist", "cifar10"}) {
    const TrainConfig config = paper_config(data, "BN");
    for (const double factor : {0.5, 1.0, -1.0}) {
      Counted s(config.schedule);
      double loss = 1, rate_at_largest = 0;
      for (int64_t epoch = 1; epoch < config.epochs; ++epoch) {
        loss = factor > 0 ? loss * factor : 1.0 + epoch % 3;
        s.finish_epoch(loss);
        if (rate_at_largest == 0 && s.now().batch == config.schedule.max_batch)
          rate_at_largest = s.now().learning_rate;
      }
      EXPECT_EQ(s.now().batch, config.schedule.max_batch) << data << factor;
      EXPECT_LE(s.now().learning_rate, rate_at_largest / 16) << data << factor;
      EXPECT_GE(s.now().learning_rate, rate_at_largest / 512) << data << factor;
    }
  }
}

TEST(Schedule, AfterAnEpochAllCountAsSlow) {
  ScheduleRules rules = rules_of("mnist");
  rules.slow_epochs = 2;
  rules.slow_after = 2;
  Counted s(rules);
  s.finish_epoch(1.0);
  EXPECT_EQ(s.finish_epoch(0.5).reason, "training loss 0.5 is 50.00 % below 1, not less than 5 %");
  const Decision third = s.finish_epoch(0.25);
  EXPECT_FALSE(third.slow);
  EXPECT_EQ(third.reason,
            "training loss 0.25 is 50.00 % below 0.5, not less than 5 %; after epoch 2 every epoch "
            "counts as slow (epoch 1 of 2)");
  EXPECT_TRUE(s.finish_epoch(0.125).slow);
  EXPECT_EQ(s.now().batch, 512);
  EXPECT_FALSE(s.finish_epoch(0.06).slow);
  EXPECT_TRUE(s.finish_epoch(0.03).slow);
  EXPECT_EQ(s.now().batch, 1024);
}

// --- configs -------------------------------------------------------------------------------------

std::string complaint(const char* text) {
  try {
    TrainConfig config = config_from_json(parse_json(text, "my.json"), "my.json");
    config.threads = 1;
    check_config(config);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Config, RoundTrip) {
  TrainConfig config = paper_config("svhn", "ZCA(1e-5)");
  config.threads = 2;
  config.net.blocks[1].layer = "BN->W";
  config.schedule.slow_improvement = 0.123;
  config.seed = 12345678901234;
  config.net.fold = false;
  config.net.sample_stride = 3;
  check_config(config);
  const nlohmann::json first = to_json(config);
  EXPECT_EQ(first, nlohmann::json(to_json(config_from_json(first, "c"))));
  EXPECT_EQ(first.at("blocks").at(1).at("layer"), "BN->W");
}

TEST(Config, EverySeedReadsBack) {
  TrainConfig config = paper_config("mnist", "BN");
  config.seed = 9223372036854775807;
  EXPECT_EQ(config_from_json(to_json(config), "c").seed, config.seed);
}

TEST(Config, AMessageHoldsWhateverIsFound) {
  const nlohmann::json object = {{"name", "no UTF-8: \xff"}, {"list", std::vector<int>(10000, 1)}};
  JsonFields fields(object, "my.json");
  for (const char* key : {"name", "list"}) {
    double number = 0;
    try {
      fields.number(key, number);
      ADD_FAILURE();
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("expected a number"), std::string::npos);
      EXPECT_LT(std::string(error.what()).size(), 300u);
    }
  }
}

TEST(Config, NetsOfThePaper) {
  const TrainConfig mnist = paper_config("mnist", "BN"), svhn = paper_config("svhn", "BN");
  const int64_t expected[2][3][3] = {{{3, 1, 16}, {4, 2, 64}, {3, 1, 128}},
                                     {{3, 1, 32}, {4, 2, 64}, {3, 1, 128}}};
  for (int i = 0; i < 3; ++i) {
    const BlockConfig m = mnist.net.blocks[i], s = svhn.net.blocks[i];
    EXPECT_EQ((std::vector<int64_t>{m.fov, m.stride, m.channels}),
              std::vector<int64_t>(expected[0][i], expected[0][i] + 3));
    EXPECT_EQ((std::vector<int64_t>{s.fov, s.stride, s.channels}),
              std::vector<int64_t>(expected[1][i], expected[1][i] + 3));
  }
  EXPECT_EQ(mnist.augment.rotation, 20);
  EXPECT_EQ(svhn.augment.rotation, 0);
  EXPECT_EQ(svhn.augment.zoom_in, 2);
  EXPECT_EQ(svhn.augment.zoom_out, 0);

  const TrainConfig cifar = paper_config("cifar10", "BN"),
                    fashion = paper_config("fashion-mnist", "BN");
  EXPECT_EQ(cifar.net.blocks[0].channels, 32);
  EXPECT_EQ(cifar.augment.zoom_in, 2);
  EXPECT_TRUE(cifar.augment.mirror);
  EXPECT_FALSE(svhn.augment.mirror);
  EXPECT_EQ(fashion.net.blocks[0].channels, 16);
  EXPECT_EQ(fashion.augment.zoom_out, 4);
  EXPECT_EQ(fashion.augment.rotation, 0);
}

TEST(Config, AnErrorNamesThePlace) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(complaint("{}"), "");
  has(complaint("{\"epochs\": 3,\n \"layer\" \"BN\"}"), "my.json: line 2, column 13: not JSON");
  has(complaint("{\"epoks\": 3}"), "no setting 'epoks'");
  has(complaint("{\"epoks\": 3}"), "did you mean 'epochs'");
  has(complaint("{\"schedule\": {\"lerning_rate\": 3}}"), "my.json: schedule: no setting");
  has(complaint("{\"schedule\": {\"learning_rate\": \"fast\"}}"),
      "learning_rate: expected a number");
  has(complaint("{\"schedule\": {\"learning_rate\": -1}}"), "learning_rate: expected");
  has(complaint("{\"blocks\": [{\"channels\": 8, \"fov\": 2.5}]}"),
      "blocks[0]: fov: expected an integer");
  has(complaint("{\"blocks\": [{\"fov\": 3}]}"),
      "blocks[0]: channels: expected an integer, 1 to 65536, found 0");
  has(complaint("{\"blocks\": []}"), "blocks");
  has(complaint("{\"data\": \"cifar\"}"),
      "expected mnist, fashion-mnist, cifar10, svhn, svhn-train or synthetic");
  has(complaint("{\"layer\": \"ZCB\"}"), "did you mean 'ZCA'");
  has(complaint("{\"epochs\": 0}"), "epochs");
  has(complaint("{\"augment\": {\"zoom_out\": 20}}"), "zoom_out: expected 0 to 14, found 20");
  has(complaint("{\"refresh_images\": 1}"),
      "refresh_images: expected 0 (none), or 2 or more, found 1");
  EXPECT_EQ(complaint("{\"refresh_images\": 2}"), "");
  has(complaint("{\"schedule\": {\"learning_rate\": 1e300}}"),
      "learning_rate: expected above 0, at most 1e30, found 1e+300");
  has(complaint("{\"schedule\": {\"weight_decay\": 1e300}}"), "weight_decay: expected 0 to 1e30");
  has(complaint("{\"schedule\": {\"batch\": 4e9}}"),
      "batch: expected an integer, 2 to 1000000000, found 4000000000.0");
  // What does not fit is not cut to fit.
  has(complaint("{\"threads\": 4294967297}"),
      "threads: expected an integer, 0 to 1024, found 4294967297");
  has(complaint("{\"seed\": -1}"), "seed: expected an integer, 0 to 9223372036854775807, found -1");
  has(complaint("{\"seed\": 18446744073709551615}"), "seed: expected an integer");
  EXPECT_EQ(complaint("{\"seed\": 9223372036854775807}"), "");
  has(complaint("[1]"), "expected an object");
  has(complaint(""), "line 1");
}

}  // namespace
}  // namespace orthobatch
