#include "export/answers.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "data/random.h"
#include "train/evaluate.h"

namespace orthobatch::exporter {
namespace {

// A folded weight is rounded once, at 6e-8 of its size, and a logit sums thousands of them.
constexpr double largest_difference = 1e-4;

/// (images, channels, rows, columns) of a set's bytes, from one on.
torch::Tensor bytes_of(const data::ImageSet& images, int64_t start, int64_t n) {
  return torch::from_blob(const_cast<uint8_t*>(images.image(start)),
                          {n, images.height, images.width, images.channels}, torch::kByte)
      .permute({0, 3, 1, 2})
      .contiguous();
}

}  // namespace

bool Agreement::holds() const {
  // Answers may differ where two logits are as near as rounding.
  return largest <= largest_difference * std::max(1.0, scale) && differ * 1000 <= images;
}

Agreement compare(const train::Checkpoint& checkpoint, const PlainNet& net, const Model& model,
                  const data::ImageSet& images) {
  const torch::NoGradGuard no_grad;
  train::DigitNet own = checkpoint.net;
  own->eval();
  const int64_t images_at_once = own->images_at_once();
  Agreement out;
  out.images = images.count();
  for (int64_t start = 0; start < images.count(); start += images_at_once) {
    const int64_t n = std::min(images_at_once, images.count() - start);
    const torch::Tensor expected = own(train::net_input(images, checkpoint.scale, start, n));
    const torch::Tensor found = model(as_input(net, checkpoint.scale, bytes_of(images, start, n)));
    const torch::Tensor labels = torch::tensor(
        std::vector<int64_t>(images.labels.begin() + start, images.labels.begin() + start + n));
    const torch::Tensor answers = expected.argmax(1), theirs = found.argmax(1);
    const auto count = [](const torch::Tensor& t) { return t.count_nonzero().item<int64_t>(); };
    out.own_wrong += count(answers != labels);
    out.model_wrong += count(theirs != labels);
    out.differ += count(answers != theirs);
    const double distance = (found - expected).abs().max().item<double>();
    out.largest = std::max(out.largest, std::isnan(distance) ? INFINITY : distance);
    out.scale = std::max(out.scale, expected.abs().max().item<double>());
  }
  return out;
}

data::ImageSet noise_images(const data::ImageShape& shape) {
  constexpr int64_t most = 1000, bytes = int64_t{1} << 26;
  const int64_t count =
      std::clamp<int64_t>(bytes / (shape.height * shape.width * shape.channels), 1, most);
  data::ImageSet out;
  out.name = "noise";
  out.height = static_cast<int>(shape.height);
  out.width = static_cast<int>(shape.width);
  out.channels = static_cast<int>(shape.channels);
  out.labels.assign(static_cast<size_t>(count), 0);
  out.pixels.resize(static_cast<size_t>(count * out.image_size()));
  data::Random random(1);
  for (uint8_t& byte : out.pixels) byte = static_cast<uint8_t>(random.below(256));
  return out;
}

}  // namespace orthobatch::exporter
