#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace orthobatch::io {

/// A picture of 8-bit RGB pixels, rows from the top.
struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  ///< height × width × 3

  Picture(int width, int height, uint8_t background);
  uint8_t* at(int x, int y) { return rgb.data() + 3 * (static_cast<size_t>(y) * width + x); }
  void fill(int x, int y, int w, int h, uint8_t r, uint8_t g, uint8_t b);
  /// Text of ASCII letters, digits and the commonest signs, 5×7 pixels a character times `scale`,
  /// one column between; any other byte is a question mark. Its upper left corner is at (x, y);
  /// `upwards` it is turned a quarter to the left, and begins above (x, y).
  void text(int x, int y, const std::string& text, int scale, uint8_t grey, bool upwards = false);
  static int text_width(const std::string& text, int scale);
};

/// The bytes of a PNG file. By hand: a header, zlib and a checksum are all it takes without filters
/// or palettes, where libpng wants a callback for each error.
std::vector<uint8_t> encode_png(const Picture& picture);
/// The file, at once or not at all.
void write_png(const std::string& path, const Picture& picture);

}  // namespace orthobatch::io
