#pragma once
// JPEG files: the doorway to libjpeg.

#include <string>

#include "io/bounds.h"
#include "io/file.h"
#include "io/pixels.h"

namespace orthobatch::io {

bool is_jpeg(const Bytes& bytes);

/// From the first bytes of a file, as many as its head has; turned as its EXIF data say. `name` is
/// what messages call it; throws FileError where there is no whole head, or it tells of more than
/// `limit` pixels.
PixelSize jpeg_size(const Bytes& bytes, const std::string& name, int64_t limit = most_pixels);

/// The image, upright as its EXIF data say; CMYK becomes RGB. One that is to be shrunk to
/// `least_width` × `least_height` may come at a half, a fourth or an eighth of its size, still at
/// least twice that. Throws FileError where the file is damaged or not whole.
Pixels decode_jpeg(const Bytes& bytes, const std::string& name, int64_t limit = most_pixels,
                   int least_width = 0, int least_height = 0);

}  // namespace orthobatch::io
