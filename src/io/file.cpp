#include "io/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "base/text.h"

namespace orthobatch::io {
namespace {

// NAME.tmp and sixteen hexadecimal digits that nobody can foresee.
constexpr const char* temporary_mark = ".tmp";
constexpr size_t temporary_digits = 16;
constexpr int writer_patience_ms = 3000;
// Opening must not wait, nor make a terminal ours.
constexpr int careful = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a link";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

[[noreturn]] void refuse_kind(const std::string& path, mode_t mode) {
  throw FileError(path, "type", "a regular file", kind_of(mode));
}

struct stat status_of(const Descriptor& file, const std::string& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw FileError(path, "cannot read", errno);
  return status;
}

Descriptor open_any(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | careful));
  if (file.get() >= 0) return file;
  const int error = errno;
  struct stat status {};
  if (error == ENXIO && ::stat(path.c_str(), &status) == 0) refuse_kind(path, status.st_mode);
  throw FileError(path, "cannot open", error);
}

/// One read that waits for bytes where there is a writer; 0 at the end.
size_t read_waiting(const Descriptor& file, const std::string& path, char* out, size_t size,
                    bool begun) {
  bool patient = true;  // with a pipe that has had no writer yet
  while (true) {
    const ssize_t n = ::read(file.get(), out, size);
    if (n > 0) return static_cast<size_t>(n);
    if (n == 0 && (begun || !S_ISFIFO(status_of(file, path).st_mode))) return 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR) throw FileError(path, "cannot read", errno);
    if (n == 0 && !patient) throw FileError(path, "cannot read: nobody writes to this pipe");
    pollfd wait = {file.get(), POLLIN, 0};
    patient = ::poll(&wait, 1, n == 0 ? writer_patience_ms : -1) > 0 && !(wait.revents & POLLHUP);
  }
}

Bytes read_size(const Descriptor& file, const std::string& path, uint64_t size) {
  Bytes bytes(size);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FileError(path, "cannot read", errno);
    if (n == 0)
      throw FileError(path, "size", std::to_string(size) + " bytes",
                      std::to_string(done) + " (it shrank while being read)");
    done += static_cast<size_t>(n);
  }
  return bytes;
}

void write_all(int fd, const char* data, size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      throw FileError(path, "cannot write", errno);
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
}

/// A device or a pipe, /dev/stdout for one, takes the bytes; a rename would put a file in its
/// place.
void write_through(const std::string& path, const void* data, size_t size) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | careful));
  if (file.get() < 0 && errno == ENXIO) throw FileError(path, "cannot write: nobody reads from it");
  if (file.get() < 0) throw FileError(path, "cannot write", errno);
  ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  write_all(file.get(), static_cast<const char*>(data), size, path);
}

/// Where the links at `path` end. One that another user made, in /tmp for instance, would have this
/// user's files replaced at his will.
std::string end_of_links(std::string path) {
  constexpr int most = 40;  // as the kernel follows
  struct stat status {};
  for (int i = 0; ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode); ++i) {
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
      throw FileError(path, "type", "a file, or a link of your own",
                      "a link that another user made");
    std::error_code error;
    const auto target = std::filesystem::read_symlink(path, error);
    if (error || i == most) throw FileError(path, "cannot write", error ? error.value() : ELOOP);
    path = (std::filesystem::path(parent_path(path)) / target).string();
  }
  return path;
}

/// A new file beside `path`, whose name nobody else can have taken; `name` gets it.
Descriptor create_temporary(const std::string& path, std::string& name) {
  std::random_device source;
  for (int attempt = 0; attempt < 100; ++attempt) {
    char digits[temporary_digits + 1];
    std::snprintf(digits, sizeof digits, "%08x%08x", source(), source());
    name = path + temporary_mark + digits;
    Descriptor file(
        ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file.get() >= 0) return file;
    if (errno != EEXIST) break;
  }
  throw FileError(path, "cannot write", errno);
}

}  // namespace

FileError::FileError(const std::string& path, const std::string& field, const std::string& expected,
                     const std::string& found)
    : FileError(path, field + ": expected " + expected + ", found " + found) {}

FileError::FileError(const std::string& path, const std::string& message)
    : std::runtime_error(base::printable(path + ": " + message)) {}

FileError::FileError(const std::string& path, const std::string& message, int error)
    : FileError(path, message + ": " + std::strerror(error)) {
  this->error = error;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int Descriptor::release() { return std::exchange(fd_, -1); }

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Descriptor open_file(const std::string& path) {
  Descriptor file = open_any(path);
  const struct stat status = status_of(file, path);
  if (!S_ISREG(status.st_mode)) refuse_kind(path, status.st_mode);
  return file;
}

Descriptor open_own_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | careful, 0666));
  if (file.get() < 0) {
    const int error = errno;
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
      refuse_kind(path, status.st_mode);
    throw FileError(path, "cannot write", error);
  }
  const struct stat status = status_of(file, path);
  if (!S_ISREG(status.st_mode)) refuse_kind(path, status.st_mode);
  return file;
}

Bytes read_file(const std::string& path, uint64_t limit) {
  const Descriptor file = open_file(path);
  const auto size = static_cast<uint64_t>(status_of(file, path).st_size);
  if (size > limit)
    throw FileError(path, "size", "at most " + std::to_string(limit) + " bytes",
                    std::to_string(size));
  return read_size(file, path, size);
}

Bytes read_start(const std::string& path, uint64_t most) {
  const Descriptor file = open_file(path);
  return read_size(file, path,
                   std::min(most, static_cast<uint64_t>(status_of(file, path).st_size)));
}

std::string read_text(const std::string& path, uint64_t limit) {
  const Bytes bytes = read_file(path, limit);
  return {bytes.begin(), bytes.end()};
}

std::string read_input(const std::string& path, uint64_t limit) {
  const Descriptor file = open_any(path);
  const struct stat status = status_of(file, path);
  if (S_ISREG(status.st_mode)) return read_text(path, limit);
  if (S_ISDIR(status.st_mode)) throw FileError(path, "type", "a file or a pipe", "a folder");
  std::string text;
  char piece[4096];
  while (const size_t n = read_waiting(file, path, piece, sizeof piece, !text.empty())) {
    text.append(piece, n);
    if (text.size() > limit)
      throw FileError(path, "size", "at most " + std::to_string(limit) + " bytes", "more");
  }
  return text;
}

void write_file(const std::string& path, const void* data, size_t size) {
  std::string temporary;
  const Descriptor file = create_temporary(path, temporary);
  try {
    write_all(file.get(), static_cast<const char*>(data), size, path);
    if (::fsync(file.get()) != 0) throw FileError(path, "cannot write", errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      throw FileError(path, "cannot rename " + temporary, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(parent_path(path));
}

void write_file(const std::string& path, const std::string& text) {
  write_file(path, text.data(), text.size());
}

void write_output(const std::string& path, const void* data, size_t size) {
  std::error_code ignored;
  if (std::filesystem::is_other(std::filesystem::status(path, ignored)))
    return write_through(path, data, size);
  // A link stays one: what it leads to is replaced.
  write_file(end_of_links(path), data, size);
}

void write_output(const std::string& path, const std::string& text) {
  write_output(path, text.data(), text.size());
}

bool is_temporary_name(const std::string& name) {
  const size_t mark = name.rfind(temporary_mark), length = std::strlen(temporary_mark);
  return mark != std::string::npos && mark > 0 && name.size() - mark - length == temporary_digits &&
         name.find_first_not_of("0123456789abcdef", mark + length) == std::string::npos;
}

void sync_directory(const std::string& directory) {
  const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0)
    ::fsync(folder.get());  // not every file system can; the rename stands anyway
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

}  // namespace orthobatch::io
