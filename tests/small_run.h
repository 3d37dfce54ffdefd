#pragma once
// Runs that take a second: a small net on drawn digits.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "data/synthetic.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "rooms.h"
#include "train/resume.h"
#include "train/trainer.h"

namespace orthobatch::test {

inline const DataSet& small_data() {
  static const DataSet data = [] {
    DataSet d = load_data("synthetic", "", 640);
    d.test.keep_first(200);
    return d;
  }();
  return data;
}

inline TrainConfig small_config(const std::string& layer = "ZCA(1e-5)") {
  TrainConfig config = paper_config("synthetic", layer);
  config.net.blocks = {{3, 1, 6, layer}, {4, 2, 8, layer}};
  config.schedule.batch = 64;
  config.schedule.max_batch = 128;
  config.schedule.slow_improvement = 0.5;  // so that decisions are taken
  config.schedule.slow_epochs = 1;
  config.refresh_images = 200;
  config.epochs = 4;
  config.threads = 1;
  check_config(config);
  return config;
}

/// metrics.jsonl without what depends on the clock.
inline std::vector<nlohmann::json> metrics_of(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("time");
  }
  return lines;
}

inline std::vector<torch::Tensor> weights_of(const std::string& checkpoint) {
  const Checkpoint read = read_checkpoint(checkpoint);
  std::vector<torch::Tensor> out = read.net->parameters();
  for (const torch::Tensor& t : read.net->buffers()) out.push_back(t);
  for (const torch::Tensor& t : read.momenta) out.push_back(t);
  return out;
}

inline void expect_same_run(const std::string& a, const std::string& b) {
  EXPECT_EQ(metrics_of(a), metrics_of(b));
  for (const char* name : {"/last.safetensors", "/best.safetensors"}) {
    const auto left = weights_of(a + name), right = weights_of(b + name);
    ASSERT_EQ(left.size(), right.size());
    for (size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(left[i].equal(right[i])) << name << i;
  }
}

struct Session {
  RunFolder folder;
  Progress progress;
  std::atomic<bool> stop{false};
  Trainer trainer;

  Session(const std::string& path, const TrainConfig& config)
      : folder(path), trainer(config, small_data(), &folder, progress, stop) {}
};

inline void whole_run(const std::string& path, const TrainConfig& config) {
  Session session(path, config);
  session.trainer.begin();
  ASSERT_EQ(session.trainer.run(), Trainer::Outcome::finished);
}

}  // namespace orthobatch::test
