#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace orthobatch {

/// MD5 (RFC 1321) in pieces: the sum data sets are published with. It tells a damaged file from a
/// good one; it does not protect against malice.
class Md5 {
 public:
  void update(const void* data, size_t size);
  /// 32 hexadecimal digits. Ends the sum.
  std::string hex();

 private:
  void block(const uint8_t* p);

  uint32_t state_[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  uint64_t length_ = 0;
  uint8_t pending_[64] = {};
};

std::string md5_hex(const void* data, size_t size);
/// Of a file, read in pieces.
std::string md5_of_file(const std::string& path);

/// CRC-32C (Castagnoli), the sum of TFRecord files.
uint32_t crc32c(const void* data, size_t size);

}  // namespace orthobatch
