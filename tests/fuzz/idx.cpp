#include "data/idx.h"

#include "fuzz.h"

using orthobatch::Idx;

void parse_bytes(const std::vector<uint8_t>& bytes) {
  Idx idx = orthobatch::parse_idx(bytes, "fuzz.idx");
  const Idx labels = idx.sizes.size() == 1 ? idx : Idx{{idx.sizes[0]}, orthobatch::Bytes(1)};
  if (labels.data.size() != static_cast<size_t>(labels.sizes[0])) return;
  orthobatch::images_from_idx(idx.sizes.size() >= 3 ? std::move(idx) : Idx{{1, 1, 1}, {0}}, labels,
                              "fuzz images", "fuzz labels");
}

std::vector<std::vector<uint8_t>> corpus() {
  std::vector<uint8_t> images = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 5};
  images.resize(16 + 20, 7);
  std::vector<uint8_t> colour = {0, 0, 8, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3};
  colour.resize(20 + 6, 7);
  return {images, colour, {0, 0, 8, 1, 0, 0, 0, 1, 9}};
}
