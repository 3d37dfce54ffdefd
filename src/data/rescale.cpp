#include "data/rescale.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::data {
namespace {

/// The pixels an output pixel is made of, and their weights, which sum to 1.
struct Window {
  int first = 0;
  std::vector<float> weights;

  int last() const { return first + static_cast<int>(weights.size()) - 1; }
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
  const std::vector<Window> down = windows(image.height, height);
  // A row of the input at a time goes into the rows of the output that it is part of: an image as
  // high as a file may be costs no more than its pixels.
  std::vector<float> row(row_size), sums(row_size * height);
  int first = 0;  // of the output's rows, that this one is part of
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* in = image.bytes.data() + static_cast<size_t>(y) * image.width * channels;
    float* out = row.data();
    for (const Window& window : across)
      for (int c = 0; c < channels; ++c) {
        float sum = 0;
        const uint8_t* p = in + static_cast<size_t>(window.first) * channels + c;
        for (const float weight : window.weights) sum += weight * *p, p += channels;
        *out++ = sum;
      }
    while (first < height && down[first].last() < y) ++first;
    for (int i = first; i < height && down[i].first <= y; ++i) {
      const float weight = down[i].weights[y - down[i].first];
      float* to = sums.data() + i * row_size;
      for (const float value : row) *to++ += weight * value;
    }
  }
  io::Pixels result{width, height, channels, {}};
  result.bytes.reserve(sums.size());
  for (const float sum : sums)
    result.bytes.push_back(static_cast<uint8_t>(std::clamp(sum + 0.5f, 0.0f, 255.0f)));
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
