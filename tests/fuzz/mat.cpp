#include "data/svhn.h"
#include "fuzz.h"
#include "mat_writer.h"

void parse_bytes(const std::vector<uint8_t>& bytes) {
  orthobatch::MemorySource source(bytes.data(), bytes.size());
  orthobatch::ImageSet set;
  orthobatch::read_svhn(source, "fuzz.mat", set);
}

std::vector<std::vector<uint8_t>> corpus() {
  return {orthobatch::test::svhn_file(2, false), orthobatch::test::svhn_file(11, true)};
}
