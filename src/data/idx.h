#pragma once
// The idx format of MNIST: a magic number, big-endian sizes, bytes.

#include <string>

#include "data/images.h"
#include "io/file.h"

namespace orthobatch::data {

/// An idx file of unsigned bytes.
struct Idx {
  std::vector<int64_t> sizes;
  io::Bytes data;
};

/// `name` is what messages call the file.
Idx parse_idx(io::Bytes bytes, const std::string& name);

/// The bytes of a file that may be gzip-compressed, uncompressed.
io::Bytes read_maybe_gzip(const std::string& path);

/// Images (count × height × width, or with channels after it: 1 or 3) and labels (count, 0 …
/// classes − 1) as one set.
ImageSet images_from_idx(Idx images, const Idx& labels, const std::string& images_name,
                         const std::string& labels_name, int classes = digit_classes);

}  // namespace orthobatch::data
