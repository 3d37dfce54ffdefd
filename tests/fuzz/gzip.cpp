#include "io/gzip.h"

#include "fuzz.h"

void parse_bytes(const std::vector<uint8_t>& bytes) {
  orthobatch::gunzip(bytes, "fuzz.gz", 1 << 22);
}

std::vector<std::vector<uint8_t>> corpus() {
  std::vector<uint8_t> text(300);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<uint8_t>(i * i % 61);
  std::vector<uint8_t> twice = orthobatch::gzip(text);
  const std::vector<uint8_t> once = twice;
  twice.insert(twice.end(), once.begin(), once.end());
  return {once, twice, orthobatch::gzip({}), orthobatch::gzip(std::vector<uint8_t>(5000, 0))};
}
