#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct evp_md_ctx_st;  // libcrypto's EVP_MD_CTX

namespace orthobatch::io {

/// MD5 (RFC 1321) in pieces: the sum data sets are published with. It tells a damaged file from a
/// good one; it does not protect against malice.
class Md5 {
 public:
  Md5();
  void update(const void* data, size_t size);
  /// 32 hexadecimal digits. Ends the sum.
  std::string hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

std::string md5_hex(const void* data, size_t size);
/// Of a file, read in pieces.
std::string md5_of_file(const std::string& path);

/// CRC-32C (Castagnoli), the sum of TFRecord files. By hand: zlib's crc32 is that of another
/// polynomial, and libcrypto has none.
uint32_t crc32c(const void* data, size_t size);

}  // namespace orthobatch::io
