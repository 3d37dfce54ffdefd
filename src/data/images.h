#pragma once
// Labelled images in memory, as every data set of this project ends up.

#include <cstdint>
#include <string>
#include <vector>

namespace orthobatch::data {

constexpr int digit_classes = 10;
constexpr int most_classes = 2048;

using Label = uint16_t;

/// [label][answer]: how often.
using Confusion = std::vector<std::vector<int64_t>>;

struct ImageShape {
  int64_t height = 0, width = 0, channels = 0;
};

struct ImageSet {
  std::string name;  ///< "mnist train"
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  ///< count × height × width × channels
  std::vector<Label> labels;    ///< count, 0 … classes − 1
  int classes = digit_classes;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  int64_t image_size() const { return int64_t{height} * width * channels; }
  const uint8_t* image(int64_t i) const { return pixels.data() + i * image_size(); }
  ImageShape shape() const { return {height, width, channels}; }

  /// Drops all but the first n images; nothing when there are no more than n.
  void keep_first(int64_t n);
};

std::vector<int64_t> class_counts(const ImageSet& images);

/// What turns bytes into the net's input: (byte / 255 − mean) / deviation, per channel.
struct InputScale {
  std::vector<double> mean, deviation;
};

/// Mean and deviation of each channel over a set.
InputScale measure_scale(const ImageSet& images);

/// The scale of pictures: bytes become 0 … 1.
InputScale picture_scale(int channels);
/// Back from it.
uint8_t picture_byte(float value);

}  // namespace orthobatch::data
