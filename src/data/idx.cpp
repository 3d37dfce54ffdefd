#include "data/idx.h"

#include <cstdio>
#include <utility>

#include "base/text.h"
#include "io/bounds.h"
#include "io/gzip.h"

namespace orthobatch::data {
namespace {

uint32_t big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

std::string hex_text(uint32_t x) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", x);
  return text;
}

}  // namespace

Idx parse_idx(io::Bytes bytes, const std::string& name) {
  if (bytes.size() < 4)
    throw io::FileError(name, "magic number", "4 bytes", base::bytes_text(bytes.size()));
  const uint32_t magic = big_endian(bytes.data());
  const uint32_t rank = magic & 255;
  if (magic >> 8 != 8 || rank < 1 || rank > 4)
    throw io::FileError(name, "magic number", "0x00000801 to 0x00000804 (unsigned bytes)",
                        hex_text(magic));
  const size_t header = 4 + 4 * size_t{rank};
  if (bytes.size() < header)
    throw io::FileError(name, "header", base::bytes_text(header), base::bytes_text(bytes.size()));
  Idx idx;
  uint64_t total = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const uint64_t size = big_endian(bytes.data() + 4 + 4 * i);
    if (size == 0 || size > io::largest_idx || total * size > io::largest_idx)
      throw io::FileError(name, "size of dimension " + std::to_string(i + 1),
                          "1 or more, " + base::bytes_text(io::largest_idx) + " of data at most",
                          std::to_string(size));
    total *= size;
    idx.sizes.push_back(static_cast<int64_t>(size));
  }
  if (bytes.size() - header != total)
    throw io::FileError(name, "data", base::bytes_text(total) + " as its header says",
                        base::bytes_text(bytes.size() - header));
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  idx.data = std::move(bytes);
  return idx;
}

io::Bytes read_maybe_gzip(const std::string& path) {
  io::Bytes bytes = io::read_file(path, io::largest_idx);
  return io::is_gzip(bytes) ? io::gunzip(bytes, path, io::largest_idx) : bytes;
}

ImageSet images_from_idx(Idx images, const Idx& labels, const std::string& images_name,
                         const std::string& labels_name, int classes) {
  const auto dimensions = [](const Idx& idx) { return std::to_string(idx.sizes.size()); };
  if (images.sizes.size() != 3 && images.sizes.size() != 4)
    throw io::FileError(images_name, "dimensions", "3 (images, rows, columns), or 4 with channels",
                        dimensions(images));
  const int64_t channels = images.sizes.size() == 4 ? images.sizes[3] : 1;
  if (channels != 1 && channels != 3)
    throw io::FileError(images_name, "channels", "1 or 3", std::to_string(channels));
  if (labels.sizes.size() != 1)
    throw io::FileError(labels_name, "dimensions", "1 (labels)", dimensions(labels));
  if (images.sizes[1] > io::largest_side || images.sizes[2] > io::largest_side)
    throw io::FileError(
        images_name, "rows and columns", "at most " + std::to_string(io::largest_side),
        std::to_string(images.sizes[1]) + " and " + std::to_string(images.sizes[2]));
  if (labels.sizes[0] != images.sizes[0])
    throw io::FileError(labels_name, "labels",
                        std::to_string(images.sizes[0]) + ", one for each image",
                        std::to_string(labels.sizes[0]));
  for (size_t i = 0; i < labels.data.size(); ++i)
    if (labels.data[i] >= classes)
      throw io::FileError(labels_name, "label " + std::to_string(i + 1),
                          "0 to " + std::to_string(classes - 1), std::to_string(labels.data[i]));
  ImageSet set;
  set.height = static_cast<int>(images.sizes[1]);
  set.width = static_cast<int>(images.sizes[2]);
  set.channels = static_cast<int>(channels);
  set.pixels = std::move(images.data);
  set.labels.assign(labels.data.begin(), labels.data.end());
  set.classes = classes;
  return set;
}

}  // namespace orthobatch::data
