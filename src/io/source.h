#pragma once
// Bytes read in order, from memory or a file, as they are or through zlib.

#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace orthobatch::io {

class Source {
 public:
  virtual ~Source() = default;
  /// Up to n bytes; fewer only at the end.
  virtual size_t read(void* out, size_t n) = 0;
};

class MemorySource : public Source {
 public:
  MemorySource(const void* data, size_t size)
      : next_(static_cast<const uint8_t*>(data)), left_(size) {}
  size_t read(void* out, size_t n) override;

 private:
  const uint8_t* next_;
  size_t left_;
};

class FileSource : public Source {
 public:
  explicit FileSource(const std::string& path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  size_t read(void* out, size_t n) override;

 private:
  std::string path_;
  std::FILE* file_;
};

/// The next `size` bytes of another source, no more.
class SliceSource : public Source {
 public:
  SliceSource(Source& inner, uint64_t size) : inner_(inner), left_(size) {}
  size_t read(void* out, size_t n) override;

 private:
  Source& inner_;
  uint64_t left_;
};

/// A zlib stream inside another source, or gzip members up to its end, uncompressed; checksums are
/// verified.
class InflateSource : public Source {
 public:
  enum class Format { zlib, gzip };
  /// `name` is what messages call the file.
  InflateSource(Source& compressed, std::string name, Format format = Format::zlib);
  ~InflateSource() override;
  InflateSource(const InflateSource&) = delete;
  InflateSource& operator=(const InflateSource&) = delete;
  size_t read(void* out, size_t n) override;

 private:
  /// False at the end of what is compressed.
  bool refill();

  Source& compressed_;
  std::string name_;
  Format format_;
  z_stream stream_{};
  std::vector<uint8_t> input_;
  uint64_t taken_ = 0, given_ = 0;  ///< bytes, compressed and not
  bool ended_ = false;
};

}  // namespace orthobatch::io
