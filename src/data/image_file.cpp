#include "data/image_file.h"

#include <algorithm>
#include <cstring>

#include "data/rescale.h"
#include "io/jpeg_reader.h"
#include "io/png_reader.h"

namespace orthobatch::data {
namespace {

constexpr uint64_t head_bytes = 16384;  // most JPEG heads are smaller; else all is read

std::string kind_of_content(const io::Bytes& bytes) {
  const auto starts = [&](const char* mark, size_t at = 0) {
    const size_t length = std::strlen(mark);
    return bytes.size() >= at + length && std::memcmp(bytes.data() + at, mark, length) == 0;
  };
  if (bytes.empty()) return "an empty file";
  if (starts("GIF8")) return "a GIF image";
  if (starts("BM")) return "a BMP image";
  if (starts("RIFF") && starts("WEBP", 8)) return "a WebP image";
  if (starts("II*") || starts("MM")) return "a TIFF image";
  if (starts("ftyp", 4)) return "a HEIF or AVIF image, or a film";
  const auto is_text = [](uint8_t c) { return c >= 0x20 || c == '\n' || c == '\r' || c == '\t'; };
  return std::all_of(bytes.begin(), bytes.end(), is_text) ? "text" : "something else";
}

[[noreturn]] void refuse_content(const std::string& path, const io::Bytes& bytes) {
  throw io::FileError(path, "content", "a PNG or JPEG image", kind_of_content(bytes));
}

}  // namespace

io::PixelSize look_at_image(const std::string& path) {
  const io::Bytes bytes = io::read_start(path, head_bytes);
  if (io::is_png(bytes)) return io::png_size(bytes, path);
  if (!io::is_jpeg(bytes)) refuse_content(path, bytes);
  try {
    return io::jpeg_size(bytes, path);
  } catch (const io::FileError&) {
    if (bytes.size() < head_bytes) throw;
    return io::jpeg_size(io::read_file(path, io::largest_image_file), path);
  }
}

io::Pixels read_image(const std::string& path, int width, int height) {
  const io::Bytes bytes = io::read_file(path, io::largest_image_file);
  if (io::is_png(bytes)) return rescale(io::decode_png(bytes, path), width, height);
  if (!io::is_jpeg(bytes)) refuse_content(path, bytes);
  return rescale(io::decode_jpeg(bytes, path, io::most_pixels, width, height), width, height);
}

}  // namespace orthobatch::data
