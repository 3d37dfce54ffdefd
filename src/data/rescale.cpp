#include "data/rescale.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::data {
namespace {

/// The pixels an output pixel is made of, and their weights, which sum to 1.
struct Window {
  int first = 0;
  std::vector<float> weights;
};

/// Triangles of one pixel to either side where the image grows, of one output pixel where it
/// shrinks: else what lies between would be passed over.
std::vector<Window> windows(int from, int to) {
  std::vector<Window> out(to);
  const double scale = static_cast<double>(from) / to, reach = std::max(1.0, scale);
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(std::floor(centre - reach)));
    const int last = std::min(from - 1, static_cast<int>(std::ceil(centre + reach)));
    std::vector<double> weights;
    double sum = 0;
    for (int k = first; k <= last; ++k) {
      weights.push_back(std::max(0.0, 1 - std::abs(k + 0.5 - centre) / reach));
      sum += weights.back();
    }
    out[i].first = first;
    for (const double w : weights) out[i].weights.push_back(static_cast<float>(w / sum));
  }
  return out;
}

}  // namespace

io::Pixels rescale(io::Pixels image, int width, int height) {
  if (image.width == width && image.height == height) return image;
  const int channels = image.channels;
  const size_t row_size = static_cast<size_t>(width) * channels;
  const std::vector<Window> across = windows(image.width, width);
  std::vector<float> rows(row_size * image.height);  // as wide as the output, as high as the input
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* in = image.bytes.data() + static_cast<size_t>(y) * image.width * channels;
    float* out = rows.data() + y * row_size;
    for (const Window& window : across)
      for (int c = 0; c < channels; ++c) {
        float sum = 0;
        const uint8_t* p = in + static_cast<size_t>(window.first) * channels + c;
        for (const float weight : window.weights) sum += weight * *p, p += channels;
        *out++ = sum;
      }
  }
  io::Pixels result{width, height, channels, {}};
  result.bytes.reserve(row_size * height);
  std::vector<float> sums(row_size);
  for (const Window& window : windows(image.height, height)) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    const float* in = rows.data() + window.first * row_size;
    for (const float weight : window.weights)
      for (size_t i = 0; i < row_size; ++i) sums[i] += weight * *in++;
    for (const float sum : sums)
      result.bytes.push_back(static_cast<uint8_t>(std::clamp(sum + 0.5f, 0.0f, 255.0f)));
  }
  return result;
}

bool is_grey(const io::Pixels& image) {
  if (image.channels == 1) return true;
  for (size_t i = 0; i < image.bytes.size(); i += 3)
    if (image.bytes[i] != image.bytes[i + 1] || image.bytes[i] != image.bytes[i + 2]) return false;
  return true;
}

io::Pixels with_channels(io::Pixels image, int channels) {
  if (image.channels == channels) return image;
  io::Pixels out{image.width, image.height, channels, {}};
  out.bytes.reserve(static_cast<size_t>(image.width) * image.height * channels);
  for (size_t i = 0; i < image.bytes.size(); i += image.channels) {
    const uint8_t* p = image.bytes.data() + i;
    if (channels == 3)
      out.bytes.insert(out.bytes.end(), 3, *p);
    else
      out.bytes.push_back(
          static_cast<uint8_t>((299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000));
  }
  return out;
}

}  // namespace orthobatch::data
