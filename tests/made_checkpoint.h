#pragma once
// A net after one step, and the texts that go with it in a checkpoint.

#include <torch/torch.h>

#include <memory>
#include <string>

#include "io/safetensors.h"
#include "orthobatch/version.h"
#include "rooms.h"
#include "small_run.h"

namespace orthobatch::test {

struct MadeCheckpoint {
  TrainConfig config;
  std::string config_text;
  TrainState state;
  DigitNet net{nullptr};
  std::unique_ptr<torch::optim::SGD> optimizer;

  explicit MadeCheckpoint(const std::string& layer = "LDL(1e-5)->W->Gamma") {
    config = small_config(layer);
    nlohmann::ordered_json text = {{"version", ORTHOBATCH_VERSION}};
    text.update(to_json(config));
    text["found"] = describe_data(small_data());
    config_text = text.dump(2) + "\n";
    make_state();
    torch::manual_seed(11);
    net = DigitNet(small_data().train.shape(), config.net);
    const torch::Tensor x = torch::randn({8, 1, 28, 28});
    initialize(net, x, 0.5);
    optimizer = std::make_unique<torch::optim::SGD>(net->parameters(),
                                                    torch::optim::SGDOptions(0.1).momentum(0.9));
    net(x).pow(2).mean().backward();
    optimizer->step();
  }

  std::string text() const {
    const TemporaryFolder folder;
    save_checkpoint(folder.path("a"), config_text, state, net, *optimizer);
    return read_text(folder.path("a"), 1 << 24);
  }

 private:
  /// Three of ten steps into the second epoch.
  void make_state() {
    state.epoch = 1;
    state.step = 3;
    state.images = 3 * 64;
    state.wrong = 100;
    state.loss_sum = 300.25;
    state.seconds = 0.5;
    state.exchanges = {1, 2};
    for (const double loss : {2.0, 1.5, 1.25}) state.curve.add(loss, 10);
    state.schedule = {{0.125, 0.9, 0.905, 64}, 2.25, 0};
    state.best = {1, 70.5, 2.125};
    state.metrics_md5 = "3f4ee29ca62fd5a87ea600c28e7945bb";
  }
};

inline const MadeCheckpoint& made() {
  static const MadeCheckpoint checkpoint;
  return checkpoint;
}

inline Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// A checkpoint's file with something changed in it, and its checksum made good again: anyone can.
template <typename Change>
Bytes forged(const std::string& text, const Change& change) {
  Safetensors file = parse_safetensors({text.begin(), text.end()}, "a");
  change(file);
  file.metadata["checksum"] = content_checksum(file, "checksum");
  const std::string out = safetensors_text(file, "a");
  return {out.begin(), out.end()};
}

/// What a checkpoint is refused with; empty where it is taken.
inline std::string refusal(Bytes bytes) {
  try {
    parse_checkpoint(std::move(bytes), "a");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace orthobatch::test
