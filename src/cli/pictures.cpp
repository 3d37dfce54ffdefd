#include "cli/pictures.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::cli {
namespace {

constexpr uint8_t paper_grey = 255, ink_grey = 40;
constexpr size_t longest_name = 16;

/// As far as there are letters for it: a character of another script is one question mark.
std::string drawn_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) != 0x80) out += byte < 0x80 ? c : '?';  // the first byte of a character
  }
  return out.size() <= longest_name ? out : out.substr(0, longest_name - 2) + "..";
}

int widest_name(const std::vector<std::string>& names, int scale) {
  int widest = 0;
  for (const std::string& name : names)
    widest = std::max(widest, io::Picture::text_width(drawn_name(name), scale));
  return widest;
}

void draw_image(io::Picture& picture, int x, int y, const data::ImageSet& set,
                const float* values) {
  for (int row = 0; row < set.height; ++row)
    for (int column = 0; column < set.width; ++column) {
      const float* pixel = values + (static_cast<size_t>(row) * set.width + column) * set.channels;
      uint8_t* out = picture.at(x + column, y + row);
      for (int c = 0; c < 3; ++c) out[c] = data::picture_byte(pixel[set.channels == 3 ? c : 0]);
    }
}

}  // namespace

io::Picture contact_sheet(const data::ImageSet& set, const std::vector<std::string>& classes,
                          int columns, const data::Augmentation& augmentation, uint64_t seed) {
  const int gap = 2, rows = std::min(set.classes, most_rows);
  const int scale = set.height >= 14 ? 2 : 1, left = 4 + widest_name(classes, scale) + 4;
  std::vector<std::vector<int64_t>> of_class(set.classes);
  for (int64_t i = 0; i < set.count(); ++i) of_class[set.labels[i]].push_back(i);
  io::Picture picture(left + columns * (set.width + gap), rows * (set.height + gap) + gap,
                      paper_grey);
  data::Augmenter augment(set, data::picture_scale(set.channels), augmentation, seed);
  std::vector<float> values(set.image_size());
  for (int row = 0; row < rows; ++row) {
    const auto& all = of_class[row];
    const int y = gap + row * (set.height + gap);
    picture.text(3, y + (set.height - 7 * scale) / 2, drawn_name(classes[row]), scale, ink_grey);
    const auto shown = std::min<int64_t>(columns, static_cast<int64_t>(all.size()));
    for (int64_t k = 0; k < shown; ++k) {
      const int64_t index = all[k * static_cast<int64_t>(all.size()) / shown];
      augment(/*epoch=*/1, index, values.data());
      draw_image(picture, left + static_cast<int>(k) * (set.width + gap), y, set, values.data());
    }
  }
  return picture;
}

io::Picture confusion_picture(const data::Confusion& confusion,
                              const std::vector<std::string>& names) {
  const auto classes = static_cast<int>(confusion.size());
  const int cell = std::clamp(1600 / std::max(classes, 1), 1, 56);
  constexpr int scale = 2, letter = 7 * scale;
  const bool numbers = cell >= 40, named = cell > letter + 2;
  // Of many classes only some have room for their number.
  const int every =
      named ? 1 : std::max(1, (io::Picture::text_width("0000", scale) + cell - 1) / cell);
  const auto name_of = [&](int k) { return named ? drawn_name(names[k]) : std::to_string(k); };
  const int widest = named ? widest_name(names, scale) : io::Picture::text_width("0000", scale);
  const bool upwards = named && widest > cell - 4;
  const int left = 92 + widest, top = (upwards ? widest : letter) + 46;
  io::Picture picture(left + classes * cell + 20, top + classes * cell + 20, paper_grey);
  const auto centred = [&](int cx, int cy, const std::string& text, uint8_t grey) {
    picture.text(cx - io::Picture::text_width(text, scale) / 2, cy - 7, text, scale, grey);
  };
  centred(left + classes * cell / 2, 16, "answer", ink_grey);
  centred(36, top + classes * cell / 2, "label", ink_grey);
  for (int label = 0; label < classes; ++label) {
    int64_t total = 0;
    for (const int64_t n : confusion[label]) total += n;
    const int cy = top + label * cell + cell / 2;
    if (label % every == 0) {
      const int cx = left + label * cell + cell / 2;
      const std::string name = name_of(label);
      if (upwards)
        picture.text(cx - 7, top - 8, name, scale, ink_grey, true);
      else
        centred(cx, top - 15, name, ink_grey);
      picture.text(left - 9 - io::Picture::text_width(name, scale), cy - 7, name, scale, ink_grey);
    }
    const int edge = cell > 4 ? 1 : 0;
    for (int answer = 0; answer < classes; ++answer) {
      const int64_t n = confusion[label][answer];
      const double share = total > 0 ? static_cast<double>(n) / static_cast<double>(total) : 0;
      // Right answers in blue by their share; wrong ones in red on a root scale: few, but seen.
      const bool right = label == answer;
      const double depth = right ? share : std::min(1.0, 3 * std::sqrt(share));
      const auto fade = [&](int full) { return static_cast<uint8_t>(255 - depth * (255 - full)); };
      picture.fill(left + answer * cell + edge, top + label * cell + edge, cell - 2 * edge,
                   cell - 2 * edge, fade(right ? 40 : 200), fade(right ? 90 : 40),
                   fade(right ? 160 : 30));
      if (n > 0 && numbers)
        centred(left + answer * cell + cell / 2, cy, std::to_string(n),
                depth > 0.55 ? 255 : ink_grey);
    }
  }
  return picture;
}

}  // namespace orthobatch::cli
