#pragma once
// An image as its file is decoded.

#include <cstdint>
#include <vector>

namespace orthobatch::io {

/// Rows from the top, 8 bits a channel: grey (1) or RGB (3).
struct Pixels {
  int width = 0, height = 0, channels = 0;
  std::vector<uint8_t> bytes;  ///< height × width × channels
};

/// What the head of a file says of it.
struct PixelSize {
  int width = 0, height = 0;
  bool grey = false;  ///< stored as such; a colour format may hold grey pixels too
};

}  // namespace orthobatch::io
