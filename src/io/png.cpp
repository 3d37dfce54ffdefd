#include "io/png.h"

#include <zlib.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "io/file.h"

namespace orthobatch::io {
namespace {

constexpr int glyph_width = 5, glyph_height = 7;

/// Seven rows of five pixels, the highest bit of five to the left; '?' stands for all others.
const std::map<char, std::array<uint8_t, glyph_height>>& glyphs() {
  static const std::map<char, std::array<uint8_t, glyph_height>> table = {
      {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},
      {'2', {14, 17, 1, 6, 8, 16, 31}},    {'3', {14, 17, 1, 6, 1, 17, 14}},
      {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
      {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},
      {'8', {14, 17, 17, 14, 17, 17, 14}}, {'9', {14, 17, 17, 15, 1, 2, 12}},
      {'.', {0, 0, 0, 0, 0, 12, 12}},      {'%', {24, 25, 2, 4, 8, 19, 3}},
      {'A', {14, 17, 17, 31, 17, 17, 17}}, {'B', {30, 17, 17, 30, 17, 17, 30}},
      {'C', {14, 17, 16, 16, 16, 17, 14}}, {'D', {30, 17, 17, 17, 17, 17, 30}},
      {'E', {31, 16, 16, 30, 16, 16, 31}}, {'F', {31, 16, 16, 30, 16, 16, 16}},
      {'G', {14, 17, 16, 23, 17, 17, 15}}, {'H', {17, 17, 17, 31, 17, 17, 17}},
      {'I', {14, 4, 4, 4, 4, 4, 14}},      {'J', {7, 2, 2, 2, 2, 18, 12}},
      {'K', {17, 18, 20, 24, 20, 18, 17}}, {'L', {16, 16, 16, 16, 16, 16, 31}},
      {'M', {17, 27, 21, 21, 17, 17, 17}}, {'N', {17, 25, 21, 19, 17, 17, 17}},
      {'O', {14, 17, 17, 17, 17, 17, 14}}, {'P', {30, 17, 17, 30, 16, 16, 16}},
      {'Q', {14, 17, 17, 17, 21, 18, 13}}, {'R', {30, 17, 17, 30, 20, 18, 17}},
      {'S', {15, 16, 16, 14, 1, 1, 30}},   {'T', {31, 4, 4, 4, 4, 4, 4}},
      {'U', {17, 17, 17, 17, 17, 17, 14}}, {'V', {17, 17, 17, 17, 17, 10, 4}},
      {'W', {17, 17, 17, 21, 21, 27, 17}}, {'X', {17, 17, 10, 4, 10, 17, 17}},
      {'Y', {17, 17, 10, 4, 4, 4, 4}},     {'Z', {31, 1, 2, 4, 8, 16, 31}},
      {'a', {0, 0, 14, 1, 15, 17, 15}},    {'b', {16, 16, 30, 17, 17, 17, 30}},
      {'c', {0, 0, 14, 16, 16, 17, 14}},   {'d', {1, 1, 15, 17, 17, 17, 15}},
      {'e', {0, 0, 14, 17, 31, 16, 14}},   {'f', {6, 9, 8, 28, 8, 8, 8}},
      {'g', {0, 15, 17, 17, 15, 1, 14}},   {'h', {16, 16, 30, 17, 17, 17, 17}},
      {'i', {4, 0, 12, 4, 4, 4, 14}},      {'j', {2, 0, 6, 2, 2, 18, 12}},
      {'k', {16, 16, 18, 20, 24, 20, 18}}, {'l', {12, 4, 4, 4, 4, 4, 14}},
      {'m', {0, 0, 26, 21, 21, 21, 21}},   {'n', {0, 0, 30, 17, 17, 17, 17}},
      {'o', {0, 0, 14, 17, 17, 17, 14}},   {'p', {0, 0, 30, 17, 30, 16, 16}},
      {'q', {0, 0, 15, 17, 15, 1, 1}},     {'r', {0, 0, 22, 25, 16, 16, 16}},
      {'s', {0, 0, 15, 16, 14, 1, 30}},    {'t', {8, 8, 28, 8, 8, 9, 6}},
      {'u', {0, 0, 17, 17, 17, 19, 13}},   {'v', {0, 0, 17, 17, 17, 10, 4}},
      {'w', {0, 0, 17, 17, 21, 21, 10}},   {'x', {0, 0, 17, 10, 4, 10, 17}},
      {'y', {0, 0, 17, 17, 15, 1, 14}},    {'z', {0, 0, 31, 2, 4, 8, 31}},
      {'-', {0, 0, 0, 31, 0, 0, 0}},       {'_', {0, 0, 0, 0, 0, 0, 31}},
      {'(', {2, 4, 8, 8, 8, 4, 2}},        {')', {8, 4, 2, 2, 2, 4, 8}},
      {',', {0, 0, 0, 0, 12, 4, 8}},       {'+', {0, 4, 4, 31, 4, 4, 0}},
      {'/', {0, 1, 2, 4, 8, 16, 0}},       {':', {0, 12, 12, 0, 12, 12, 0}},
      {'?', {14, 17, 1, 2, 4, 0, 4}},      {' ', {0, 0, 0, 0, 0, 0, 0}}};
  return table;
}

void put_big_endian(Bytes& out, uint32_t x) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(x >> shift));
}

void put_chunk(Bytes& out, const char* type, const Bytes& data) {
  put_big_endian(out, static_cast<uint32_t>(data.size()));
  const size_t start = out.size();
  out.insert(out.end(), type, type + 4);
  out.insert(out.end(), data.begin(), data.end());
  put_big_endian(out, static_cast<uint32_t>(
                          crc32(0, out.data() + start, static_cast<uInt>(out.size() - start))));
}

}  // namespace

Picture::Picture(int width, int height, uint8_t background)
    : width(width), height(height), rgb(static_cast<size_t>(width) * height * 3, background) {}

void Picture::fill(int x, int y, int w, int h, uint8_t r, uint8_t g, uint8_t b) {
  for (int row = std::max(y, 0); row < std::min(y + h, height); ++row)
    for (int column = std::max(x, 0); column < std::min(x + w, width); ++column) {
      uint8_t* pixel = at(column, row);
      pixel[0] = r, pixel[1] = g, pixel[2] = b;
    }
}

int Picture::text_width(const std::string& text, int scale) {
  return static_cast<int>(text.size()) * (glyph_width + 1) * scale - scale;
}

void Picture::text(int x, int y, const std::string& text, int scale, uint8_t grey, bool upwards) {
  for (size_t k = 0; k < text.size(); ++k) {
    const auto found = glyphs().find(text[k]);
    const auto& glyph = found != glyphs().end() ? found->second : glyphs().at('?');
    for (int row = 0; row < glyph_height; ++row)
      for (int column = 0; column < glyph_width; ++column) {
        if (!(glyph[row] >> (glyph_width - 1 - column) & 1)) continue;
        const int along = (static_cast<int>(k) * (glyph_width + 1) + column) * scale;
        if (upwards)
          fill(x + row * scale, y - along - scale, scale, scale, grey, grey, grey);
        else
          fill(x + along, y + row * scale, scale, scale, grey, grey, grey);
      }
  }
}

Bytes encode_png(const Picture& picture) {
  Bytes rows;
  rows.reserve(picture.rgb.size() + picture.height);
  for (int y = 0; y < picture.height; ++y) {
    rows.push_back(0);  // filter: none
    const auto begin = picture.rgb.begin() + static_cast<std::ptrdiff_t>(y) * picture.width * 3;
    rows.insert(rows.end(), begin, begin + std::ptrdiff_t{picture.width} * 3);
  }
  uLongf size = compressBound(rows.size());
  Bytes compressed(size);
  if (compress2(compressed.data(), &size, rows.data(), rows.size(), 9) != Z_OK)
    throw std::runtime_error("zlib cannot compress a picture");
  compressed.resize(size);

  Bytes header, out = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  put_big_endian(header, static_cast<uint32_t>(picture.width));
  put_big_endian(header, static_cast<uint32_t>(picture.height));
  header.insert(header.end(),
                {8, 2, 0, 0, 0});  // 8 bits, RGB, deflate, no filter set, no interlace
  put_chunk(out, "IHDR", header);
  put_chunk(out, "IDAT", compressed);
  put_chunk(out, "IEND", {});
  return out;
}

void write_png(const std::string& path, const Picture& picture) {
  const Bytes bytes = encode_png(picture);
  write_file(path, bytes.data(), bytes.size());
}

}  // namespace orthobatch::io
