#include "io/checksum.h"

#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "io/source.h"

namespace orthobatch::io {
namespace {

/// libcrypto answers 1 where it did as asked.
void require(int answer) {
  if (answer != 1) throw std::runtime_error("libcrypto has no MD5 here");
}

std::array<uint32_t, 256> castagnoli_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

}  // namespace

Md5::Md5() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  require(context_ ? EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr) : 0);
}

void Md5::update(const void* data, size_t size) {
  require(EVP_DigestUpdate(context_.get(), data, size));
}

std::string Md5::hex() {
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  require(EVP_DigestFinal_ex(context_.get(), sum, &size));
  std::string out;
  for (unsigned i = 0; i < size; ++i) {
    out += "0123456789abcdef"[sum[i] >> 4];
    out += "0123456789abcdef"[sum[i] & 15];
  }
  return out;
}

std::string md5_hex(const void* data, size_t size) {
  Md5 sum;
  sum.update(data, size);
  return sum.hex();
}

std::string md5_of_file(const std::string& path) {
  FileSource file(path);
  Md5 sum;
  std::vector<uint8_t> piece(1 << 20);
  while (const size_t n = file.read(piece.data(), piece.size())) sum.update(piece.data(), n);
  return sum.hex();
}

uint32_t crc32c(const void* data, size_t size) {
  static const std::array<uint32_t, 256> table = castagnoli_table();
  const auto* p = static_cast<const uint8_t*>(data);
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ table[(crc ^ p[i]) & 255];
  return ~crc;
}

}  // namespace orthobatch::io
