#pragma once

#include <string>
#include <vector>

#include "data/augment.h"
#include "data/images.h"
#include "io/png.h"

namespace orthobatch::cli {

/// A row for each class, at most `most_rows`, with its name and `columns` of its images spread over
/// the set. With an augmentation each image is drawn as training would see it in epoch 1 of `seed`.
io::Picture contact_sheet(const data::ImageSet& images, const std::vector<std::string>& classes,
                          int columns, const data::Augmentation& augmentation, uint64_t seed);

constexpr int most_rows = 100;

/// Rows are labels, columns are answers; the darker a cell, the larger its share of the label. With
/// many classes cells are small, have no numbers in them, and the classes' numbers beside them in
/// place of their names.
io::Picture confusion_picture(const data::Confusion& confusion,
                              const std::vector<std::string>& classes);

}  // namespace orthobatch::cli
