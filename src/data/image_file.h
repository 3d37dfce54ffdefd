#pragma once
// A PNG or JPEG file, told by its content and not by its name.

#include <string>

#include "io/pixels.h"

namespace orthobatch::data {

/// What a file's head says. Throws FileError where it is no image, or cannot be read.
io::PixelSize look_at_image(const std::string& path);

/// The image, scaled. Throws FileError where it is damaged.
io::Pixels read_image(const std::string& path, int width, int height);

}  // namespace orthobatch::data
