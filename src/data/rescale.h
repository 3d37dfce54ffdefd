#pragma once

#include "io/pixels.h"

namespace orthobatch::data {

/// An image at another size, each direction by itself: linear between pixels where it grows, a
/// weighted mean of all that a pixel covers where it shrinks.
io::Pixels rescale(io::Pixels image, int width, int height);

/// Whether R = G = B everywhere.
bool is_grey(const io::Pixels& image);

/// Grey as RGB, or RGB as grey (0.299 R + 0.587 G + 0.114 B); itself where it has them already.
io::Pixels with_channels(io::Pixels image, int channels);

}  // namespace orthobatch::data
