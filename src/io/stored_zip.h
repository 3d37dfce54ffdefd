#pragma once
// The directory of a zip file, checked before a byte of an entry is used.

#include <string>
#include <vector>

#include "io/file.h"

namespace orthobatch {

struct ZipEntry {
  std::string name;
  size_t offset = 0;  ///< of its bytes in the file
  size_t stored = 0;  ///< so many of them
  size_t size = 0;    ///< of what they hold; the same where it is not deflated
  bool deflated = false;
};

/// The entries of a zip file without a comment, in the order of their places. Throws FileError
/// unless each is inside the file and overlaps no other, has a name of its own, the same in the
/// directory and before its bytes, and is stored as it is or deflated.
std::vector<ZipEntry> read_zip_directory(const Bytes& bytes, const std::string& path);

/// What an entry holds, as text; refused above `limit` bytes.
std::string zip_text(const Bytes& bytes, const ZipEntry& entry, size_t limit,
                     const std::string& path);

}  // namespace orthobatch
