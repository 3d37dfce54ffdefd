#include "io/base64.h"

namespace orthobatch::io {

std::string base64(const std::vector<uint8_t>& bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = bytes.size() - i;  // bytes left, 3 or more in all groups but the last
    const uint32_t group = static_cast<uint32_t>(bytes[i]) << 16 |
                           (n > 1 ? static_cast<uint32_t>(bytes[i + 1]) << 8 : 0u) |
                           (n > 2 ? static_cast<uint32_t>(bytes[i + 2]) : 0u);
    out += digits[group >> 18];
    out += digits[group >> 12 & 63];
    out += n > 1 ? digits[group >> 6 & 63] : '=';
    out += n > 2 ? digits[group & 63] : '=';
  }
  return out;
}

}  // namespace orthobatch::io
