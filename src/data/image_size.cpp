#include "data/image_size.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "io/bounds.h"

namespace orthobatch::data {
namespace {

// Of the size that is chosen where none is asked for. The paper's nets read images of 28 and 32
// pixels: at 224 a batch takes a gigabyte and more for each block, and under 10 nothing is left for
// the last block.
constexpr int largest_chosen = 64, smallest_chosen = 16;

ImageSize commonest(const Sizes& sizes) {
  const auto best = std::max_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  return {best->first.first, best->first.second};
}

ImageSize fit_for_net(const ImageSize& size) {
  const double shrink =
      std::min(1.0, static_cast<double>(largest_chosen) / std::max(size.width, size.height));
  const auto side = [&](int n) {
    return std::max(smallest_chosen, static_cast<int>(std::lround(shrink * n)));
  };
  return {side(size.width), side(size.height)};
}

}  // namespace

std::string size_text(int width, int height) {
  return std::to_string(width) + "×" + std::to_string(height);
}

ImageSize parse_image_size(const std::string& text, const std::string& where) {
  ImageSize size;
  const size_t cross = std::min(text.find('x'), text.size());
  const auto read = [](const std::string& digits, int& out) {
    const char* end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, out);
    return error == std::errc() && at == end && out >= 1 && out <= io::largest_side;
  };
  if (!read(text.substr(0, cross), size.width) ||
      !read(text.substr(std::min(cross + 1, text.size())), size.height))
    throw std::invalid_argument(where + ": expected WIDTHxHEIGHT, each 1 to " +
                                std::to_string(io::largest_side) + ", as 32x32, found '" + text +
                                "'");
  return size;
}

ImageSize choose_size(const Sizes& sizes, const DataRequest& request,
                      std::vector<std::string>& notes) {
  if (request.shape)
    return {static_cast<int>(request.shape->width), static_cast<int>(request.shape->height)};
  const ImageSize common = commonest(sizes);
  const ImageSize chosen = request.image_size.empty()
                               ? fit_for_net(common)
                               : parse_image_size(request.image_size, "image_size");
  const std::string become = "become " + size_text(chosen.width, chosen.height);
  if (sizes.size() > 1) {
    const auto smaller = [](const auto& a, const auto& b) {
      return int64_t{a.first.first} * a.first.second < int64_t{b.first.first} * b.first.second;
    };
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end(), smaller);
    notes.push_back("images of " + std::to_string(sizes.size()) + " sizes, " +
                    size_text(least->first.first, least->first.second) + " to " +
                    size_text(most->first.first, most->first.second) + " pixels, most of them " +
                    size_text(common.width, common.height) + ", " + become +
                    (request.image_size.empty() ? " (--image-size sets another size)" : ""));
  } else if (chosen.width != common.width || chosen.height != common.height) {
    notes.push_back("images of " + size_text(common.width, common.height) + " pixels " + become +
                    (request.image_size.empty()
                         ? " (--image-size " + std::to_string(common.width) + "x" +
                               std::to_string(common.height) + " keeps them)"
                         : ""));
  }
  return chosen;
}

}  // namespace orthobatch::data
