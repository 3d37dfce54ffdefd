#include "io/checksum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "io/source.h"

namespace orthobatch {
namespace {

uint32_t rotate_left(uint32_t x, int n) { return (x << n) | (x >> (32 - n)); }

std::array<uint32_t, 64> sine_table() {
  std::array<uint32_t, 64> table{};
  for (int i = 0; i < 64; ++i)
    table[i] = static_cast<uint32_t>(std::floor(std::fabs(std::sin(i + 1.0)) * 4294967296.0));
  return table;
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

void Md5::block(const uint8_t* p) {
  static const std::array<uint32_t, 64> sines = sine_table();
  static const int shifts[4][4] = {
      {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  uint32_t word[16];
  for (int i = 0; i < 16; ++i)
    word[i] = p[4 * i] | p[4 * i + 1] << 8 | p[4 * i + 2] << 16 | uint32_t{p[4 * i + 3]} << 24;
  uint32_t a = state_[0], b = state_[1], c = state_[2], d = state_[3];
  for (int i = 0; i < 64; ++i) {
    uint32_t f;
    int k;
    switch (i / 16) {
      case 0:
        f = (b & c) | (~b & d), k = i;
        break;
      case 1:
        f = (d & b) | (~d & c), k = (5 * i + 1) % 16;
        break;
      case 2:
        f = b ^ c ^ d, k = (3 * i + 5) % 16;
        break;
      default:
        f = c ^ (b | ~d), k = 7 * i % 16;
        break;
    }
    const uint32_t turned = b + rotate_left(a + f + sines[i] + word[k], shifts[i / 16][i % 4]);
    a = d, d = c, c = b, b = turned;
  }
  state_[0] += a, state_[1] += b, state_[2] += c, state_[3] += d;
}

void Md5::update(const void* data, size_t size) {
  const auto* p = static_cast<const uint8_t*>(data);
  size_t held = length_ % 64;
  length_ += size;
  if (held > 0) {
    const size_t n = std::min(size, 64 - held);
    std::memcpy(pending_ + held, p, n);
    p += n, size -= n, held += n;
    if (held < 64) return;
    block(pending_);
  }
  for (; size >= 64; p += 64, size -= 64) block(p);
  if (size > 0) std::memcpy(pending_, p, size);
}

std::string Md5::hex() {
  const uint64_t bits = length_ * 8;
  const uint8_t end[64] = {0x80};
  update(end, 1 + (119 - length_ % 64) % 64);
  uint8_t size[8];
  for (int i = 0; i < 8; ++i) size[i] = static_cast<uint8_t>(bits >> (8 * i));
  update(size, 8);
  std::string out;
  for (const uint32_t word : state_)
    for (int i = 0; i < 4; ++i) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", (word >> (8 * i)) & 255u);
      out += digits;
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

}  // namespace orthobatch
