#pragma once
// SVHN-like MAT-files for the tests, made byte by byte; small enough to say all of the format.

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>
#include "rooms.h"

namespace orthobatch::test {

using MatBytes = std::vector<uint8_t>;

inline void put_word(MatBytes& out, uint32_t x) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<uint8_t>(x >> shift));
}

inline void put_element(MatBytes& out, uint32_t type, const MatBytes& data) {
  put_word(out, type);
  put_word(out, static_cast<uint32_t>(data.size()));
  out.insert(out.end(), data.begin(), data.end());
  out.resize((out.size() + 7) / 8 * 8);
}

/// A uint8 variable as an element of its own.
inline MatBytes mat_variable(const std::string& name, const std::vector<uint32_t>& sizes,
                             const MatBytes& data) {
  MatBytes flags, dimensions, body;
  put_word(flags, 9);  // class uint8
  put_word(flags, 0);
  for (const uint32_t n : sizes) put_word(dimensions, n);
  put_element(body, 6, flags);
  put_element(body, 5, dimensions);
  put_element(body, 1, MatBytes(name.begin(), name.end()));
  put_element(body, 2, data);
  MatBytes out;
  put_element(out, 14, body);
  return out;
}

inline MatBytes mat_compressed(const MatBytes& variable) {
  uLongf size = compressBound(variable.size());
  MatBytes packed(size);
  compress(packed.data(), &size, variable.data(), variable.size());
  MatBytes out;
  put_word(out, 15);
  put_word(out, static_cast<uint32_t>(size));  // a compressed element has no padding
  out.insert(out.end(), packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size));
  return out;
}

inline MatBytes mat_file(const std::vector<MatBytes>& variables) {
  MatBytes out(128, ' ');
  std::memcpy(out.data(), "MATLAB 5.0 MAT-file", 19);
  out[124] = 0, out[125] = 1, out[126] = 'I', out[127] = 'M';
  for (const MatBytes& v : variables) out.insert(out.end(), v.begin(), v.end());
  return out;
}

/// n images of 32×32×3 and their labels 1 … 10 in turn.
inline MatBytes svhn_file(uint32_t n, bool compressed) {
  MatBytes pixels(size_t{n} * 3072), labels(n);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
  for (uint32_t i = 0; i < n; ++i) labels[i] = static_cast<uint8_t>(1 + i % 10);
  MatBytes x = mat_variable("X", {32, 32, 3, n}, pixels), y = mat_variable("y", {n, 1}, labels);
  return compressed ? mat_file({mat_compressed(x), mat_compressed(y)}) : mat_file({x, y});
}

}  // namespace orthobatch::test
