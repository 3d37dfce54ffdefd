#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace orthobatch {
namespace {

std::string system_reason() { return std::strerror(errno); }

/// A descriptor that is closed at the end of its scope.
struct Descriptor {
  int fd;
  explicit Descriptor(int fd) : fd(fd) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

void write_all(int fd, const char* data, size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      throw FileError(path, "cannot write: " + system_reason());
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
}

/// A device or a pipe, /dev/stdout for one, takes the bytes; a rename would put a file in its
/// place.
void write_through(const std::string& path, const void* data, size_t size) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.fd < 0) throw FileError(path, "cannot write: " + system_reason());
  write_all(file.fd, static_cast<const char*>(data), size, path);
}

}  // namespace

FileError::FileError(const std::string& path, const std::string& field, const std::string& expected,
                     const std::string& found)
    : std::runtime_error(path + ": " + field + ": expected " + expected + ", found " + found) {}

FileError::FileError(const std::string& path, const std::string& message)
    : std::runtime_error(path + ": " + message) {}

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Bytes read_file(const std::string& path, uint64_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) throw FileError(path, "cannot open: " + system_reason());
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) throw FileError(path, "cannot read: " + system_reason());
  if (!S_ISREG(status.st_mode)) throw FileError(path, "type", "a regular file", "something else");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > limit)
    throw FileError(path, "size", "at most " + std::to_string(limit) + " bytes",
                    std::to_string(size));
  Bytes bytes(size);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FileError(path, "cannot read: " + system_reason());
    if (n == 0)
      throw FileError(path, "size", std::to_string(size) + " bytes",
                      std::to_string(done) + " (it shrank while being read)");
    done += static_cast<size_t>(n);
  }
  return bytes;
}

std::string read_text(const std::string& path, uint64_t limit) {
  const Bytes bytes = read_file(path, limit);
  return {bytes.begin(), bytes.end()};
}

void write_file(const std::string& given, const void* data, size_t size) {
  std::error_code ignored;
  const auto status = std::filesystem::status(given, ignored);
  if (std::filesystem::is_other(status)) return write_through(given, data, size);
  // A link stays one: what it leads to is replaced.
  const bool link = std::filesystem::is_symlink(std::filesystem::symlink_status(given, ignored));
  const std::string path =
      link ? std::filesystem::weakly_canonical(given, ignored).string() : given;
  const std::string temporary = path + temporary_mark + std::to_string(::getpid());
  try {
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.fd < 0) throw FileError(path, "cannot write: " + system_reason());
    write_all(file.fd, static_cast<const char*>(data), size, path);
    if (::fsync(file.fd) != 0) throw FileError(path, "cannot write: " + system_reason());
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      throw FileError(path, "cannot rename " + temporary + ": " + system_reason());
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(parent_path(path));
}

void write_file(const std::string& path, const std::string& text) {
  write_file(path, text.data(), text.size());
}

void sync_directory(const std::string& directory) {
  const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd >= 0) ::fsync(folder.fd);  // not every file system can; the rename stands anyway
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw FileError(path, "cannot create the folder: " + error.message());
}

std::string join_path(const std::string& directory, const std::string& name) {
  return (std::filesystem::path(directory) / name).string();
}

std::string parent_path(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace orthobatch
