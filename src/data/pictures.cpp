#include "data/pictures.h"

#include <algorithm>
#include <cmath>

namespace orthobatch {
namespace {

constexpr uint8_t paper_grey = 255, ink_grey = 40;

void draw_image(Picture& picture, int x, int y, const ImageSet& set, const float* values) {
  for (int row = 0; row < set.height; ++row)
    for (int column = 0; column < set.width; ++column) {
      const float* pixel = values + (static_cast<size_t>(row) * set.width + column) * set.channels;
      uint8_t* out = picture.at(x + column, y + row);
      for (int c = 0; c < 3; ++c) out[c] = picture_byte(pixel[set.channels == 3 ? c : 0]);
    }
}

}  // namespace

Picture contact_sheet(const ImageSet& set, int columns, const Augmentation& augmentation,
                      uint64_t seed) {
  const int gap = 2, left = 16;
  std::array<std::vector<int64_t>, digit_classes> of_class;
  for (int64_t i = 0; i < set.count(); ++i) of_class[set.labels[i]].push_back(i);
  Picture picture(left + columns * (set.width + gap), digit_classes * (set.height + gap) + gap,
                  paper_grey);
  Augmenter augment(set, picture_scale(set.channels), augmentation, seed);
  std::vector<float> values(set.image_size());
  for (int digit = 0; digit < digit_classes; ++digit) {
    const auto& all = of_class[digit];
    const int y = gap + digit * (set.height + gap);
    picture.text(3, y + set.height / 2 - 7, std::to_string(digit), 2, ink_grey);
    const auto shown = std::min<int64_t>(columns, static_cast<int64_t>(all.size()));
    for (int64_t k = 0; k < shown; ++k) {
      const int64_t index = all[k * static_cast<int64_t>(all.size()) / shown];
      augment(/*epoch=*/1, index, values.data());
      draw_image(picture, left + static_cast<int>(k) * (set.width + gap), y, set, values.data());
    }
  }
  return picture;
}

Picture confusion_picture(
    const std::array<std::array<int64_t, digit_classes>, digit_classes>& confusion) {
  const int cell = 56, left = 90, top = 60, scale = 2;
  Picture picture(left + digit_classes * cell + 20, top + digit_classes * cell + 20, paper_grey);
  const auto centred = [&](int cx, int cy, const std::string& text, uint8_t grey) {
    picture.text(cx - Picture::text_width(text, scale) / 2, cy - 7, text, scale, grey);
  };
  centred(left + digit_classes * cell / 2, 16, "answer", ink_grey);
  centred(36, top + digit_classes * cell / 2, "label", ink_grey);
  for (int label = 0; label < digit_classes; ++label) {
    int64_t total = 0;
    for (const int64_t n : confusion[label]) total += n;
    const int cy = top + label * cell + cell / 2;
    centred(left + label * cell + cell / 2, 44, std::to_string(label), ink_grey);
    centred(left - 14, cy, std::to_string(label), ink_grey);
    for (int answer = 0; answer < digit_classes; ++answer) {
      const int64_t n = confusion[label][answer];
      const double share = total > 0 ? static_cast<double>(n) / static_cast<double>(total) : 0;
      // Right answers in blue by their share; wrong ones in red on a root scale: few, but seen.
      const bool right = label == answer;
      const double depth = right ? share : std::min(1.0, 3 * std::sqrt(share));
      const auto fade = [&](int full) { return static_cast<uint8_t>(255 - depth * (255 - full)); };
      picture.fill(left + answer * cell + 1, top + label * cell + 1, cell - 2, cell - 2,
                   fade(right ? 40 : 200), fade(right ? 90 : 40), fade(right ? 160 : 30));
      if (n > 0)
        centred(left + answer * cell + cell / 2, cy, std::to_string(n),
                depth > 0.55 ? 255 : ink_grey);
    }
  }
  return picture;
}

}  // namespace orthobatch
