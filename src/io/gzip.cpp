#include "io/gzip.h"

#include <zlib.h>

#include <memory>

#include "io/source.h"

namespace orthobatch::io {
namespace {

constexpr int gzip_window = 15 + 16;  // zlib: the largest window, gzip wrapping
constexpr size_t piece = size_t{1} << 16;

}  // namespace

bool is_gzip(const Bytes& bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// Not by zlib's gz functions: for them a member ends the data where no other follows it, whatever
// stands there, and a file that is no gzip is taken as it is. Both are errors here.
Bytes gunzip(const Bytes& compressed, const std::string& name, uint64_t limit) {
  if (!is_gzip(compressed)) throw FileError(name, "gzip header", "bytes 1f 8b", "others");
  MemorySource memory(compressed.data(), compressed.size());
  InflateSource inflated(memory, name, InflateSource::Format::gzip);
  Bytes content;
  while (true) {
    const size_t before = content.size();
    content.resize(before + piece);
    const size_t got = inflated.read(content.data() + before, piece);
    content.resize(before + got);
    if (content.size() > limit)
      throw FileError(name, "gzip content", "at most " + std::to_string(limit) + " bytes", "more");
    if (got < piece) return content;
  }
}

Bytes gzip(const Bytes& content) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, &deflateEnd);
  Bytes out(deflateBound(&stream, content.size()));
  stream.next_in = const_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("zlib cannot compress");
  out.resize(stream.total_out);
  return out;
}

}  // namespace orthobatch::io
