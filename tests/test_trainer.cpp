// Runs: the same twice, the same after a stop at any step.

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "io/checksum.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "small_run.h"
#include "train/net_pictures.h"
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
  TrainConfig config = small_config("ZCAE(1e-7,1e12)");
  config.epochs = 2;
  whole_run(folder.path("a"), config);
  config.augment_threads = 2;
  whole_run(folder.path("b"), config);
  expect_same_run(folder.path("a"), folder.path("b"));
  config.seed = 2;
  whole_run(folder.path("c"), config);
  EXPECT_NE(metrics_of(folder.path("a")), metrics_of(folder.path("c")));
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
      session.trainer.resume(read_checkpoint(session.folder.last()));
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
  session.trainer.resume(std::move(*run.checkpoint));
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
  Progress progress(Progress::Style::quiet);
  const std::atomic<bool> stop{false};
  const RunFolder run(folder.path("a"));
  Trainer trainer(config, other, &run, progress, stop);
  try {
    trainer.resume(read_checkpoint(run.last()));
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
    EXPECT_NE(text.find("mend that, then train --resume " + folder.path("a")), std::string::npos)
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

std::vector<int> base64_bytes(const std::string& base64) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<int> bytes;
  unsigned buffer = 0;
  int bits = 0;
  for (const char c : base64) {
    if (c == '=') break;
    buffer = buffer << 6 | static_cast<unsigned>(digits.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<int>(buffer >> bits & 255));
  }
  return bytes;
}

/// Mean |r| between different channels, from the upper triangle of a heat map.
double mean_correlation(const nlohmann::ordered_json& map, int64_t n) {
  const std::vector<int> bytes = base64_bytes(map.get<std::string>());
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), n * (n + 1) / 2);
  double sum = 0;
  size_t at = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i; j < n; ++j, ++at)
      if (i != j) sum += std::abs(bytes.at(at) - 128) / 127.0;
  return sum / (static_cast<double>(n * (n - 1)) / 2);
}

TEST(Pictures, ZcaTakesTheCorrelationsAndBnLeavesThem) {
  const TemporaryFolder folder;
  for (const char* layer : {"ZCA(1e-5,1e12)", "BN"}) {
    TrainConfig config = small_config(layer);
    config.epochs = 1;
    const std::string path = folder.path(layer);
    Session session(path, config);
    session.trainer.begin();
    session.trainer.run();
    Checkpoint best = read_checkpoint(path + "/best.safetensors");
    const auto pictures = net_pictures(best.net, small_data(), config, 1);
    for (const auto& block : pictures.at("layers")) {
      const auto n = block.at("channels").get<int64_t>();
      const double before = mean_correlation(block.at("before"), n);
      const double after = mean_correlation(block.at("after"), n);
      if (config.net.blocks[0].layer == "BN")
        EXPECT_NEAR(after, before, 0.01);  // a byte's step
      else
        EXPECT_LT(after, 0.5 * before);
    }
    EXPECT_EQ(base64_bytes(pictures.at("filters").at("data")).size(), 6u * 3 * 3);
    EXPECT_EQ(base64_bytes(pictures.at("samples").at("data")).size(), 10u * 5 * 28 * 28);
  }
}

TEST(Net, HasThePapersShapes) {
  const TrainConfig config = paper_config("svhn", "ZCA(1e-5,1e12)");
  DigitNet net(ImageShape{32, 32, 3}, config.net);
  const auto x = torch::randn({4, 3, 32, 32});
  EXPECT_EQ(net(x).sizes(), (std::vector<int64_t>{4, 10}));
  const auto one = net->blocks[0](x), two = net->blocks[1](one);
  EXPECT_EQ(one.sizes(), (std::vector<int64_t>{4, 32, 30, 30}));
  EXPECT_EQ(two.sizes(), (std::vector<int64_t>{4, 64, 14, 14}));
  EXPECT_EQ(net->blocks[2](two).sizes(), (std::vector<int64_t>{4, 128, 12, 12}));
  EXPECT_EQ(net->fc->weight.sizes(), (std::vector<int64_t>{10, 128 * 12 * 12}));
  initialize(net, x, config.net.initial_deviation);
  const double deviation = net->blocks[2]->conv->weight.std().item<double>();
  EXPECT_NEAR(deviation, std::sqrt(2.0 / (64 * 9)), 0.002);
  EXPECT_NEAR(net(x).var(0, false).mean().sqrt().item<double>(), 0.05, 1e-5);
  EXPECT_EQ(net->blocks[0]->norm->num_batches_tracked.item<int64_t>(), 1);
}

TEST(Net, ReadsItsLastMapAsTheHeadSays) {
  TrainConfig config = small_config("BN");
  config.net.padding = Padding::same;
  const auto x = torch::randn({4, 1, 28, 28});
  const auto logits = [&](Head head, const torch::Tensor& weight) {
    config.net.head = head;
    torch::manual_seed(5);
    DigitNet net(ImageShape{28, 28, 1}, config.net);
    const torch::NoGradGuard no_grad;
    net->fc->weight.copy_(weight);
    net->fc->bias.zero_();
    return net(x);
  };
  const int64_t places = 14 * 14;
  const auto one = torch::ones({10, 8});
  const auto average = logits(Head::average, one);
  // With equal weights a flat head sums over the places, here over their square root.
  EXPECT_LT((logits(Head::flat, torch::ones({10, 8 * places})) -
             average * std::sqrt(static_cast<double>(places)))
                .abs()
                .max()
                .item<double>(),
            1e-3);
  EXPECT_GT((logits(Head::max, one) - average).min().item<double>(), 0);
}

TEST(Net, FoldedIsTheSameNet) {
  for (const Head head : {Head::flat, Head::average, Head::max})
    for (const Padding padding : {Padding::valid, Padding::same}) {
      TrainConfig config = small_config("ZCA(1e-5)");
      config.net.head = head;
      config.net.padding = padding;
      std::vector<torch::Tensor> logits, gradients;
      std::vector<std::string> names;
      for (const bool fold : {false, true}) {
        config.net.fold = fold;
        torch::manual_seed(5);
        DigitNet net(ImageShape{28, 28, 1}, config.net);
        net->to(torch::kDouble);
        const auto x = torch::randn({16, 1, 28, 28}, torch::kDouble);
        initialize(net, x, 0.5);
        logits.push_back(net(x));
        (logits.back() * torch::randn({16, 10}, torch::kDouble)).sum().backward();
        for (const auto& p : net->named_parameters()) {
          gradients.push_back(p.value().grad());
          names.push_back(p.key());
        }
        net->eval();
        const torch::NoGradGuard no_grad;
        logits.push_back(net(x));
      }
      for (const int k : {0, 1})
        EXPECT_LT(((logits[k] - logits[k + 2]).norm() / logits[k].norm()).item<double>(), 1e-11);
      const size_t half = gradients.size() / 2;
      for (size_t k = 0; k < half; ++k) {
        EXPECT_EQ(names[k], names[k + half]);
        const auto difference = (gradients[k] - gradients[k + half]).norm() / gradients[k].norm();
        EXPECT_LT(difference.item<double>(), 1e-9) << names[k];
      }
    }
}

TEST(Net, RefusesAFieldOfViewThatDoesNotFitItsMap) {
  TrainConfig config = small_config("BN");
  config.net.blocks = {{3, 1, 6, "BN"}, {27, 1, 8, "BN"}};
  try {
    DigitNet net(ImageShape{28, 28, 1}, config.net);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "config: blocks[1]: fov: expected at most 26, as its map has 26×26 places (padding "
        "valid), found 27");
  }
  config.net.padding = Padding::same;
  EXPECT_EQ(map_sizes(config.net, 28, 20).back(), (std::pair<int64_t, int64_t>{28, 20}));
}

TEST(Net, RefreshedStatisticsAreThoseOfTheData) {
  const TrainConfig config = small_config("ZCA(0,inf)");
  DigitNet net(ImageShape{28, 28, 1}, config.net);
  torch::manual_seed(3);
  const auto x = torch::randn({64, 1, 28, 28});
  for (int i = 0; i < 3; ++i) net(torch::randn({8, 1, 28, 28}) * 5);  // other statistics
  refresh_statistics(net, 1, [&] { return x; });
  net->train();
  const auto trained = net(x);
  net->train();
  refresh_statistics(net, 1, [&] { return x; });
  net->eval();
  // Evaluated with statistics of the same data the answers are those of training.
  EXPECT_LT((net(x) - trained).abs().max().item<double>(), 1e-3);
}

TEST(Events, AreTfRecordsTensorBoardReads) {
  const TemporaryFolder folder;
  std::string path;
  {
    EventWriter writer(folder.path(), 0);
    writer.scalars(7, {{"loss/train", 0.25}, {"loss/test", 0.5}});
    path = writer.path();
  }
  EXPECT_NE(path.find("events.out.tfevents."), std::string::npos);
  const Bytes bytes = read_file(path);
  const auto masked = [](const uint8_t* data, size_t size) {
    const uint32_t crc = crc32c(data, size);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  };
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t size;
    uint32_t head, body;
    ASSERT_LE(at + 12, bytes.size());
    std::memcpy(&size, &bytes[at], 8);
    std::memcpy(&head, &bytes[at + 8], 4);
    EXPECT_EQ(head, masked(&bytes[at], 8));
    ASSERT_LE(at + 16 + size, bytes.size());
    std::memcpy(&body, &bytes[at + 12 + size], 4);
    EXPECT_EQ(body, masked(&bytes[at + 12], size));
    events.emplace_back(reinterpret_cast<const char*>(&bytes[at + 12]), size);
    at += 16 + size;
  }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  // wall_time (field 1, double), step (field 2, varint), summary (field 5).
  EXPECT_EQ(events[1][0], 0x09);
  EXPECT_EQ(events[1].substr(9, 3), std::string("\x10\x07\x2a", 3));
  const float quarter = 0.25f;
  std::string value("\x0a\x0aloss/train\x15", 13);
  value.append(reinterpret_cast<const char*>(&quarter), 4);
  EXPECT_NE(events[1].find(value), std::string::npos);
}

}  // namespace
}  // namespace orthobatch
