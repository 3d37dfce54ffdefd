#include "io/source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/bounds.h"
#include "io/file.h"

namespace orthobatch::io {

size_t MemorySource::read(void* out, size_t n) {
  n = std::min(n, left_);
  if (n > 0) std::memcpy(out, next_, n);
  next_ += n;
  left_ -= n;
  return n;
}

FileSource::FileSource(const std::string& path) : path_(path), file_(nullptr) {
  Descriptor file = open_file(path);
  file_ = ::fdopen(file.get(), "rb");
  if (!file_) throw FileError(path, "cannot open", errno);
  file.release();
}

FileSource::~FileSource() { std::fclose(file_); }

size_t FileSource::read(void* out, size_t n) {
  const size_t got = std::fread(out, 1, n, file_);
  if (got < n && std::ferror(file_)) throw FileError(path_, "cannot read", errno);
  return got;
}

size_t SliceSource::read(void* out, size_t n) {
  const size_t got = inner_.read(out, static_cast<size_t>(std::min<uint64_t>(n, left_)));
  left_ -= got;
  return got;
}

InflateSource::InflateSource(Source& compressed, std::string name, Format format)
    : compressed_(compressed), name_(std::move(name)), format_(format), input_(size_t{1} << 16) {
  const int window = 15 + (format == Format::gzip ? 16 : 0);  // zlib: the largest, and gzip's mark
  if (inflateInit2(&stream_, window) != Z_OK) throw FileError(name_, "zlib cannot start");
}

InflateSource::~InflateSource() { inflateEnd(&stream_); }

bool InflateSource::refill() {
  if (stream_.avail_in > 0) return true;
  stream_.next_in = input_.data();
  stream_.avail_in = static_cast<uInt>(compressed_.read(input_.data(), input_.size()));
  taken_ += stream_.avail_in;
  return stream_.avail_in > 0;
}

size_t InflateSource::read(void* out, size_t n) {
  const std::string kind = format_ == Format::gzip ? "gzip" : "zlib";
  n = std::min<size_t>(n, size_t{1} << 30);  // zlib counts in 32 bits
  stream_.next_out = static_cast<Bytef*>(out);
  stream_.avail_out = static_cast<uInt>(n);
  while (stream_.avail_out > 0 && !ended_) {
    if (!refill())
      throw FileError(name_, "compressed data", "a complete " + kind + " stream",
                      "one cut off after " + std::to_string(stream_.total_out) + " bytes");
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      ended_ = format_ == Format::zlib || !refill();
      if (!ended_ && inflateReset(&stream_) != Z_OK) throw FileError(name_, "zlib cannot go on");
    } else if (status != Z_OK) {
      throw FileError(name_, "compressed data", "an intact " + kind + " stream",
                      std::string(stream_.msg ? stream_.msg : "damage") + " after " +
                          std::to_string(stream_.total_out) + " bytes");
    }
  }
  const size_t got = n - stream_.avail_out;
  given_ += got;
  if (given_ > freely_unpacked && given_ / most_packed > taken_)
    throw FileError(name_, "compressed data",
                    "at most " + std::to_string(most_packed) + " times its size",
                    "more than " + std::to_string(given_) + " bytes of " + std::to_string(taken_) +
                        "; unpack it by hand if it is what it should be");
  return got;
}

}  // namespace orthobatch::io
