#include "fuzz.h"
#include "io/file.h"
#include "io/archive_0_1.h"

// Below the seal: an MD5 stops chance, and whoever makes an archive makes its MD5 too.
void parse_bytes(const std::vector<uint8_t>& bytes) {
  orthobatch::content_checksum(orthobatch::parse_archive_0_1(bytes, "fuzz.pt"), "");
}

std::vector<std::vector<uint8_t>> corpus() {
  orthobatch::Bytes real = orthobatch::read_file(ORTHOBATCH_TEST_FILES "/checkpoint-0.1.pt");
  orthobatch::unseal_archive_0_1(real, "corpus");
  return {real};
}
