#include "io/exif.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace orthobatch::io {
namespace {

constexpr uint32_t orientation_tag = 0x0112, type_short = 3;

/// A TIFF file in memory, of either order of bytes; 0 beyond its end.
class Tiff {
 public:
  Tiff(const uint8_t* data, size_t size) : data_(data), size_(size) {
    big_ = size >= 1 && data[0] == 'M';
  }
  uint32_t number(uint64_t at, int bytes) const {
    if (at + bytes > size_) return 0;
    uint32_t out = 0;
    for (int i = 0; i < bytes; ++i) out = out << 8 | data_[at + (big_ ? i : bytes - 1 - i)];
    return out;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  bool big_;
};

}  // namespace

int exif_orientation(const uint8_t* data, size_t size) {
  constexpr size_t mark = 6;
  if (size < mark || std::memcmp(data, "Exif\0\0", mark) != 0) return 1;
  const Tiff tiff(data + mark, size - mark);
  const uint64_t folder = tiff.number(4, 4);
  const uint32_t entries = tiff.number(folder, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t entry = folder + 2 + uint64_t{12} * i;
    if (tiff.number(entry, 2) != orientation_tag || tiff.number(entry + 2, 2) != type_short)
      continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Pixels upright(Pixels image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  // Where the stored image's first row and column are to be seen: 1 top left, 2 top right, 3 bottom
  // right, 4 bottom left; 5 to 8 the same with rows for columns.
  const bool swap = swaps_sides(orientation);
  const bool right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool bottom = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  Pixels out{
      swap ? image.height : image.width, swap ? image.width : image.height, image.channels, {}};
  out.bytes.resize(image.bytes.size());
  const int channels = image.channels;
  uint8_t* to = out.bytes.data();
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x, to += channels) {
      const int u = right ? out.width - 1 - x : x, v = bottom ? out.height - 1 - y : y;
      const size_t row = swap ? u : v, column = swap ? v : u;
      std::copy_n(image.bytes.data() + (row * image.width + column) * channels, channels, to);
    }
  return out;
}

}  // namespace orthobatch::io
