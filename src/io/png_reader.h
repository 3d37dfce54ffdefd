#pragma once
// PNG files of strangers: the doorway to libpng. (Our own are written by png.h.)

#include <string>

#include "io/bounds.h"
#include "io/file.h"
#include "io/pixels.h"

namespace orthobatch::io {

bool is_png(const Bytes& bytes);

/// From the first bytes of a file. `name` is what messages call it; throws FileError where it is
/// none, or has more than `limit` pixels.
PixelSize png_size(const Bytes& bytes, const std::string& name, int64_t limit = most_pixels);

/// The image: 16 bits become 8, a palette its colours, and what is transparent is laid over white.
/// Throws FileError where the file is damaged or not whole.
Pixels decode_png(const Bytes& bytes, const std::string& name, int64_t limit = most_pixels);

}  // namespace orthobatch::io
