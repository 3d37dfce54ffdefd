#pragma once
// MATLAB's MAT-files, version 5, read in order: numeric arrays, compressed or not. By hand, because
// matio, the library for it, holds a variable whole: SVHN's extra images are 1.6 GB, and here they
// go from the file into the set a few at a time.
//
// Layout: 128 bytes of header, then elements of (type, size, data, padding to 8 bytes). A variable
// is an element of type matrix, or a zlib stream that holds one, made of elements itself: flags,
// dimensions, name, data.

#include <functional>
#include <string>
#include <vector>

#include "io/source.h"

namespace orthobatch::data {

/// A variable whose data has not been read yet.
class MatVariable {
 public:
  std::string name;
  std::vector<int64_t> dimensions;
  std::string type;        ///< of the stored numbers: "uint8", "double", …
  int64_t count = 0;       ///< of numbers
  int64_t bytes_each = 0;  ///< of a stored number

  /// The next n numbers' bytes as stored; throws FileError when the file ends before.
  void read(void* out, int64_t n) const { read_(out, static_cast<size_t>(n * bytes_each)); }
  /// All numbers, as doubles. For variables that fit in memory many times over.
  std::vector<double> values() const;
  /// "32x32x3x73257 uint8"
  std::string shape_text() const;

 private:
  friend class MatReader;
  std::function<void(void*, size_t)> read_;
  double (*number_)(const uint8_t*) = nullptr;  ///< one stored number
};

enum class Visit { go_on, stop };
using MatVisitor = std::function<Visit(MatVariable&)>;

/// Calls `visit` for each numeric variable in the order of the file, until it says stop; what it
/// leaves unread is skipped, and the checksum of a compressed one verified. `file` is what messages
/// call the file.
void read_mat(io::Source& source, const std::string& file, const MatVisitor& visit);

}  // namespace orthobatch::data
