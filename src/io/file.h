#pragma once
// Files as this project treats them: opened without waiting and looked at before they are read;
// read whole with a bound; written to a temporary name, synced and renamed, so that a name on disk
// always holds a complete file.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace orthobatch::io {

using Bytes = std::vector<uint8_t>;

/// A file that is not what it should be: "PATH: FIELD: expected EXPECTED, found FOUND". Its text is
/// printable, whatever the path and the file hold.
struct FileError : std::runtime_error {
  FileError(const std::string& path, const std::string& field, const std::string& expected,
            const std::string& found);
  /// For what has no such form: "PATH: MESSAGE".
  FileError(const std::string& path, const std::string& message);
  /// For what the system says: "PATH: MESSAGE: what `error` means".
  FileError(const std::string& path, const std::string& message, int error);

  int error = 0;  ///< the system's number, where it was the system that said no
};

/// An open file; closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  /// Hands it over: the caller closes it.
  int release();

 private:
  int fd_;
};

bool file_exists(const std::string& path);

/// Opens a regular file to be read, or throws FileError that says what stands there. Never waits,
/// as for a pipe nobody writes to.
Descriptor open_file(const std::string& path);

/// Opens a file of a run to be written, creating it where there is none: a regular file, no link.
Descriptor open_own_file(const std::string& path);

/// The whole of a regular file; refused when it has more than `limit` bytes.
Bytes read_file(const std::string& path, uint64_t limit = uint64_t{1} << 32);

/// The same as text.
std::string read_text(const std::string& path, uint64_t limit = uint64_t{1} << 20);

/// The first `most` bytes of a regular file; all of it where it has no more.
Bytes read_start(const std::string& path, uint64_t most);

/// All text of what the user names as input, which may be a pipe or a device, /dev/stdin for one.
/// Waits for its writer; a pipe that nobody opens for writing is given up after some seconds.
std::string read_input(const std::string& path, uint64_t limit = uint64_t{1} << 20);

/// Puts `size` bytes at `path` at once or not at all: temporary name, fsync, rename. What stood
/// there before is untouched when anything fails. A link, device or pipe there is replaced by the
/// file, never written to.
void write_file(const std::string& path, const void* data, size_t size);
void write_file(const std::string& path, const std::string& text);

/// The same for a place that the user names: what a link leads to is written, unless another user
/// made the link, and a device or pipe, /dev/stdout for one, takes the bytes as it is.
void write_output(const std::string& path, const void* data, size_t size);
void write_output(const std::string& path, const std::string& text);

/// Whether a file of this name is one that write_file was still writing.
bool is_temporary_name(const std::string& name);

/// Makes a renamed or linked name in `directory` durable.
void sync_directory(const std::string& directory);

/// Creates a folder and those above it.
void make_directories(const std::string& path);

/// "a/b" from "a" and "b".
std::string join_path(const std::string& directory, const std::string& name);
/// The folder a path is in, "." for a bare name.
std::string parent_path(const std::string& path);

}  // namespace orthobatch::io
