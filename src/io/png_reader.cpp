#include "io/png_reader.h"

#include <png.h>

#include <algorithm>
#include <cstring>

namespace orthobatch::io {
namespace {

constexpr uint8_t png_signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr size_t head_size = 29;  // the signature, and IHDR up to its checksum
constexpr uint8_t colour_type_grey = 0, colour_type_grey_alpha = 4;

uint32_t png_number(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

/// libpng is content with the last pixel; a file that lost its end may have lost more.
void require_end(const Bytes& bytes, const std::string& name) {
  size_t at = sizeof png_signature;
  while (bytes.size() - at >= 12) {
    const uint64_t length = png_number(bytes.data() + at);
    const bool end = std::memcmp(bytes.data() + at + 4, "IEND", 4) == 0;
    if (length > bytes.size() - at - 12) break;
    if (end) return;
    at += 12 + length;
  }
  throw FileError(name, "PNG", "its end, chunk IEND",
                  "none in " + std::to_string(bytes.size()) + " bytes: it is not whole");
}

/// Over white, in place: (colour, alpha) … become colour ….
void lay_over_white(Bytes& bytes, int channels) {
  uint8_t* out = bytes.data();
  for (const uint8_t* in = bytes.data(); in != bytes.data() + bytes.size(); in += channels + 1) {
    const unsigned alpha = in[channels];
    for (int c = 0; c < channels; ++c)
      *out++ = static_cast<uint8_t>((alpha * in[c] + (255 - alpha) * 255 + 127) / 255);
  }
  bytes.resize(out - bytes.data());
}

}  // namespace

bool is_png(const Bytes& bytes) {
  return bytes.size() >= sizeof png_signature &&
         std::equal(std::begin(png_signature), std::end(png_signature), bytes.begin());
}

PixelSize png_size(const Bytes& bytes, const std::string& name, int64_t limit) {
  if (!is_png(bytes)) throw FileError(name, "first bytes", "those of a PNG file", "others");
  if (bytes.size() < head_size || std::memcmp(bytes.data() + 12, "IHDR", 4) != 0)
    throw FileError(name, "PNG", "its head, chunk IHDR", "none: it is not whole");
  const int64_t width = png_number(bytes.data() + 16), height = png_number(bytes.data() + 20);
  if (width < 1 || height < 1 || width > limit || height > limit || width * height > limit)
    throw FileError(name, "PNG", "1 to " + std::to_string(limit) + " pixels",
                    std::to_string(width) + "×" + std::to_string(height));
  const uint8_t type = bytes[25];
  return {static_cast<int>(width), static_cast<int>(height),
          type == colour_type_grey || type == colour_type_grey_alpha};
}

Pixels decode_png(const Bytes& bytes, const std::string& name, int64_t limit) {
  png_size(bytes, name, limit);
  require_end(bytes, name);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto fail = [&] {
    const std::string why = image.message;
    png_image_free(&image);
    throw FileError(name, "PNG: " + why);
  };
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) fail();
  // Else 16 bits without a word on their meaning would be taken for linear light.
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const bool colour = image.format & PNG_FORMAT_FLAG_COLOR;
  const bool alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  image.format = (colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) | (alpha ? PNG_FORMAT_FLAG_ALPHA : 0);
  Pixels out{static_cast<int>(image.width), static_cast<int>(image.height), colour ? 3 : 1, {}};
  out.bytes.resize(PNG_IMAGE_SIZE(image));
  if (!png_image_finish_read(&image, nullptr, out.bytes.data(), 0, nullptr)) fail();
  if (alpha) lay_over_white(out.bytes, out.channels);
  return out;
}

}  // namespace orthobatch::io
