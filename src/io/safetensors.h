#pragma once
// Files of tensors in the safetensors format: 8 bytes of length, a JSON header of so many bytes
// with the name, type, shape and place of each tensor, then the tensors' bytes. Nothing in such a
// file can run; Python's safetensors reads it too.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/file.h"

namespace orthobatch::io {

/// One tensor of a file: what the header says of it.
struct StoredTensor {
  std::string name;
  std::string dtype;  ///< as in the format: "F32", "F64", "I64", …
  std::vector<int64_t> shape;
  size_t offset = 0,
         size = 0;  ///< of its bytes, row-major and little-endian, in Safetensors::bytes
};

/// Texts and tensors. In `bytes` each tensor has a part of its own.
struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;
  Bytes bytes;

  /// Appends a tensor that is to be written.
  void add(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
           const void* data, size_t size);
};

/// Reads a file's bytes. Every name, type, shape, offset and size is checked before a tensor is
/// touched; throws FileError, which calls the file `path`, where one does not hold.
Safetensors parse_safetensors(Bytes bytes, const std::string& path);

/// The file's bytes; throws FileError where the header is longer than readers take.
std::string safetensors_text(const Safetensors& content, const std::string& path);

/// Eight hexadecimal digits over all names, types, shapes, tensor bytes and metadata but the
/// metadata `except`, in whatever order the file has them. A CRC-32 tells a damaged file from a
/// good one; it is no protection against malice, as anyone can compute it.
std::string content_checksum(const Safetensors& content, const std::string& except);

}  // namespace orthobatch::io
