#include "train/net_pictures.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "data/augment.h"
#include "io/base64.h"
#include "io/file.h"
#include "orthobatch/diagnostics.h"
#include "orthobatch/spec.h"
#include "run/names.h"
#include "run/settings.h"
#include "train/resume.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

namespace orthobatch::train {
namespace {

using nlohmann::ordered_json;

constexpr int64_t images_shown_to_net = 500;
constexpr int sample_columns = 5, sample_rows = 10;

/// −1 … 1 to 1 … 255; 128 is 0.
uint8_t quantized(double x) {
  return static_cast<uint8_t>(128 + std::lround(127 * std::clamp(x, -1.0, 1.0)));
}

std::string upper_triangle(const torch::Tensor& matrix) {
  const torch::Tensor m = matrix.contiguous();
  const int64_t n = m.size(0);
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i; j < n; ++j) bytes.push_back(quantized(m.data_ptr<double>()[i * n + j]));
  return io::base64(bytes);
}

torch::Tensor first_images(const data::DataSet& data) {
  const int64_t n = std::min(images_shown_to_net, data.test.count());
  return net_input(data.test, data.scale, 0, n);
}

ordered_json layers(DigitNet& net, torch::Tensor x) {
  ordered_json out = ordered_json::array();
  for (Block& block : net->blocks) {
    const torch::Tensor before = block->conv(x).relu_();
    x = block->norm(before);
    out.push_back({{"spec", to_string(block->norm->options.spec())},
                   {"channels", before.size(1)},
                   {"before", upper_triangle(correlation_matrix(before))},
                   {"after", upper_triangle(correlation_matrix(x))}});
  }
  return out;
}

ordered_json filters(DigitNet& net) {
  const torch::Tensor w =
      net->blocks.front()->conv->weight.permute({0, 2, 3, 1}).contiguous().to(torch::kFloat);
  const double scale = std::max(w.abs().max().item<double>(), 1e-30);
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < w.numel(); ++i)
    bytes.push_back(quantized(w.data_ptr<float>()[i] / scale));
  return {{"count", w.size(0)},    {"height", w.size(1)}, {"width", w.size(2)},
          {"channels", w.size(3)}, {"scale", scale},      {"data", io::base64(bytes)}};
}

ordered_json samples(const data::ImageSet& set, const data::Augmentation& augmentation,
                     uint64_t seed) {
  data::Augmenter augment(set, data::picture_scale(set.channels), augmentation, seed);
  std::vector<float> values(set.image_size());
  std::vector<uint8_t> bytes;
  for (int label = 0; label < std::min(set.classes, sample_rows); ++label) {
    const auto it = std::find(set.labels.begin(), set.labels.end(), label);
    if (it == set.labels.end()) continue;
    const int64_t index = it - set.labels.begin();
    bytes.insert(bytes.end(), set.image(index), set.image(index) + set.image_size());
    for (int epoch = 1; epoch < sample_columns; ++epoch) {
      augment(epoch, index, values.data());
      for (const float v : values) bytes.push_back(data::picture_byte(v));
    }
  }
  return {{"columns", sample_columns},
          {"height", set.height},
          {"width", set.width},
          {"channels", set.channels},
          {"data", io::base64(bytes)}};
}

}  // namespace

ordered_json net_pictures(DigitNet& net, const data::DataSet& data, const run::TrainConfig& config,
                          int64_t epoch) {
  const torch::NoGradGuard no_grad;
  const bool was_training = net->is_training();
  net->eval();
  ordered_json out = {{"epoch", epoch},
                      {"images", std::min(images_shown_to_net, data.test.count())},
                      {"layers", layers(net, first_images(data))},
                      {"filters", filters(net)},
                      {"samples", samples(data.train, config.augment, config.seed)}};
  net->train(was_training);
  return out;
}

void draw_pictures(const std::string& folder, const data::DataSet& data,
                   const run::TrainConfig& config) {
  const std::string best = io::join_path(folder, run::best_name);
  if (!io::file_exists(best)) return;
  Checkpoint checkpoint = read_best(folder);
  const ordered_json pictures = net_pictures(checkpoint.net, data, config, checkpoint.state.epoch);
  io::write_file(io::join_path(folder, run::pictures_name), pictures.dump() + "\n");
}

}  // namespace orthobatch::train
