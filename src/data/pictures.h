#pragma once

#include <array>

#include "data/augment.h"
#include "data/images.h"
#include "io/png.h"

namespace orthobatch {

/// Ten rows, one a digit, each with `columns` of its images spread over the set. With an
/// augmentation each image is drawn as training would see it in epoch 1 of `seed`.
Picture contact_sheet(const ImageSet& images, int columns, const Augmentation& augmentation,
                      uint64_t seed);

/// Rows are labels, columns are answers; the darker a cell, the larger its share of the label.
Picture confusion_picture(
    const std::array<std::array<int64_t, digit_classes>, digit_classes>& confusion);

}  // namespace orthobatch
