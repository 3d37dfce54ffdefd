#pragma once

#include "io/pixels.h"

namespace orthobatch {

/// An image at another size, each direction by itself: linear between pixels where it grows, a
/// weighted mean of all that a pixel covers where it shrinks.
Pixels rescale(Pixels image, int width, int height);

/// Whether R = G = B everywhere.
bool is_grey(const Pixels& image);

/// Grey as RGB, or RGB as grey (0.299 R + 0.587 G + 0.114 B); itself where it has them already.
Pixels with_channels(Pixels image, int channels);

}  // namespace orthobatch
