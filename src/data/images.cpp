#include "data/images.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace orthobatch::data {

void ImageSet::keep_first(int64_t n) {
  if (n >= count()) return;
  labels.resize(n);
  pixels.resize(n * image_size());
}

std::vector<int64_t> class_counts(const ImageSet& images) {
  std::vector<int64_t> counts(images.classes);
  for (const Label label : images.labels) ++counts.at(label);
  return counts;
}

InputScale measure_scale(const ImageSet& images) {
  const int channels = images.channels;
  // Exact whatever the order: sums of integers.
  std::vector<std::array<uint64_t, 256>> histogram(channels);
  for (auto& h : histogram) h.fill(0);
  for (size_t i = 0; i < images.pixels.size(); i += channels)
    for (int c = 0; c < channels; ++c) ++histogram[c][images.pixels[i + c]];
  InputScale scale;
  for (const auto& h : histogram) {
    double n = 0, sum = 0, squares = 0;
    for (int value = 0; value < 256; ++value) {
      const double x = value / 255.0, weight = static_cast<double>(h[value]);
      n += weight, sum += weight * x, squares += weight * x * x;
    }
    const double mean = n > 0 ? sum / n : 0;
    const double variance = n > 0 ? squares / n - mean * mean : 0;
    scale.mean.push_back(mean);
    scale.deviation.push_back(variance > 1e-12 ? std::sqrt(variance) : 1);
  }
  return scale;
}

InputScale picture_scale(int channels) {
  return {std::vector<double>(channels, 0.0), std::vector<double>(channels, 1.0)};
}

uint8_t picture_byte(float value) {
  return static_cast<uint8_t>(std::lround(255 * std::clamp(value, 0.0f, 1.0f)));
}

}  // namespace orthobatch::data
