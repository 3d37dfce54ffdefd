#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orthobatch::io {

/// Bytes as text for JSON, with padding (RFC 4648). By hand: libcrypto's breaks lines and counts in
/// int, and these are ten lines.
std::string base64(const std::vector<uint8_t>& bytes);

}  // namespace orthobatch::io
