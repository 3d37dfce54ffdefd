#pragma once
// Files as this project treats them: read whole with a bound, written to a temporary name, synced
// and renamed, so that a name on disk always holds a complete file.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace orthobatch {

using Bytes = std::vector<uint8_t>;

/// A file that is not what it should be: "PATH: FIELD: expected EXPECTED, found FOUND".
struct FileError : std::runtime_error {
  FileError(const std::string& path, const std::string& field, const std::string& expected,
            const std::string& found);
  /// For what the system says: "PATH: MESSAGE".
  FileError(const std::string& path, const std::string& message);
};

bool file_exists(const std::string& path);

/// The whole file; refused when it has more than `limit` bytes.
Bytes read_file(const std::string& path, uint64_t limit = uint64_t{1} << 32);

/// The same as text.
std::string read_text(const std::string& path, uint64_t limit = uint64_t{1} << 20);

/// Puts `size` bytes at `path` at once or not at all: temporary name, fsync, rename. What stood
/// there before is untouched when anything fails. A device or a pipe takes the bytes as it is.
void write_file(const std::string& path, const void* data, size_t size);
void write_file(const std::string& path, const std::string& text);

/// In the name of a file that is still being written.
constexpr const char* temporary_mark = ".tmp";

/// Makes a renamed or linked name in `directory` durable.
void sync_directory(const std::string& directory);

/// Creates a folder and those above it.
void make_directories(const std::string& path);

/// "a/b" from "a" and "b".
std::string join_path(const std::string& directory, const std::string& name);
/// The folder a path is in, "." for a bare name.
std::string parent_path(const std::string& path);

}  // namespace orthobatch
