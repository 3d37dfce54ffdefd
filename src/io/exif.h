#pragma once
// The one thing of EXIF data that changes an image: which way up it is.

#include <cstddef>
#include <cstdint>

#include "io/pixels.h"

namespace orthobatch::io {

/// 1 … 8 from the content of a JPEG's APP1 segment; 1, as it is stored, where it does not say.
int exif_orientation(const uint8_t* data, size_t size);

/// Whether rows become columns.
inline bool swaps_sides(int orientation) { return orientation >= 5; }

/// The image as it should be looked at.
Pixels upright(Pixels image, int orientation);

}  // namespace orthobatch::io
