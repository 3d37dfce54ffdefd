// The paper's nets, what is drawn of them, and the events that are written.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>

#include "io/checksum.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "rooms.h"
#include "small_run.h"
#include "train/net_pictures.h"
#include "train/trainer.h"

namespace orthobatch {
namespace {

using test::Session;
using test::small_config;
using test::small_data;

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
  for (const char* layer : {"ZCA(1e-5)", "BN"}) {
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
  const TrainConfig config = paper_config("svhn", "ZCA(1e-5)");
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
  const TrainConfig config = small_config("ZCA(0)");
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
