#include "io/png.h"

#include <zlib.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "io/file.h"

namespace orthobatch::io {
namespace {

constexpr int glyph_width = 5, glyph_height = 7;

/// Seven rows of five pixels, the highest bit of five to the left.
const std::map<char, std::array<uint8_t, glyph_height>>& glyphs() {
  static const std::map<char, std::array<uint8_t, glyph_height>> table = {
      {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},
      {'2', {14, 17, 1, 6, 8, 16, 31}},    {'3', {14, 17, 1, 6, 1, 17, 14}},
      {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
      {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},
      {'8', {14, 17, 17, 14, 17, 17, 14}}, {'9', {14, 17, 17, 15, 1, 2, 12}},
      {'.', {0, 0, 0, 0, 0, 12, 12}},      {'%', {24, 25, 2, 4, 8, 19, 3}},
      {'a', {0, 0, 14, 1, 15, 17, 15}},    {'b', {16, 16, 30, 17, 17, 17, 30}},
      {'e', {0, 0, 14, 17, 31, 16, 14}},   {'l', {12, 4, 4, 4, 4, 4, 14}},
      {'n', {0, 0, 30, 17, 17, 17, 17}},   {'r', {0, 0, 22, 25, 16, 16, 16}},
      {'s', {0, 0, 15, 16, 14, 1, 30}},    {'w', {0, 0, 17, 17, 21, 21, 10}}};
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

void Picture::text(int x, int y, const std::string& text, int scale, uint8_t grey) {
  for (const char c : text) {
    const auto glyph = glyphs().find(c);
    if (glyph != glyphs().end())
      for (int row = 0; row < glyph_height; ++row)
        for (int column = 0; column < glyph_width; ++column)
          if (glyph->second[row] >> (glyph_width - 1 - column) & 1)
            fill(x + column * scale, y + row * scale, scale, scale, grey, grey, grey);
    x += (glyph_width + 1) * scale;
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
