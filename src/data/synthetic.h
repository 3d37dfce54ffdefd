#pragma once
// Drawn digits, so that everything runs without a file: easier than MNIST, of its size and range.

#include <cstdint>

#include "data/images.h"
#include "data/random.h"

namespace orthobatch::data {

/// One digit, white on black, 28×28: its strokes bent, scaled, slanted, turned and shifted at
/// random.
void draw_digit(int digit, Random& random, uint8_t* out);

/// 10,000 training and 2,000 test images, the same every time.
void load_synthetic(ImageSet& train, ImageSet& test);

}  // namespace orthobatch::data
