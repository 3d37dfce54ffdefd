#pragma once
// The one size that all images of a user's own get.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/catalogue.h"

namespace orthobatch::data {

struct ImageSize {
  int width = 0, height = 0;
};

/// How many images have a size.
using Sizes = std::map<std::pair<int, int>, int64_t>;

/// "32×24"
std::string size_text(int width, int height);

/// "32x24", columns before rows; throws std::invalid_argument that begins with `where`.
ImageSize parse_image_size(const std::string& text, const std::string& where);

/// The size that is asked for, or the commonest within limits. Where images are scaled for it,
/// `notes` says so.
ImageSize choose_size(const Sizes& sizes, const DataRequest& request,
                      std::vector<std::string>& notes);

}  // namespace orthobatch::data
