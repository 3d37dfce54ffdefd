#include "io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

namespace orthobatch {
namespace {

constexpr int gzip_window = 15 + 16;  // zlib: the largest window, gzip wrapping
constexpr size_t piece = size_t{1} << 20;

}  // namespace

bool is_gzip(const Bytes& bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

Bytes gunzip(const Bytes& compressed, const std::string& name, uint64_t limit) {
  if (!is_gzip(compressed)) throw FileError(name, "gzip header", "bytes 1f 8b", "others");
  z_stream stream{};
  if (inflateInit2(&stream, gzip_window) != Z_OK) throw FileError(name, "zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, &inflateEnd);
  Bytes content;
  size_t used = 0;
  while (true) {
    if (stream.avail_in == 0 && used < compressed.size()) {
      const size_t n = std::min(compressed.size() - used, piece);
      stream.next_in = const_cast<Bytef*>(compressed.data() + used);
      stream.avail_in = static_cast<uInt>(n);
      used += n;
    }
    const size_t before = content.size();
    content.resize(before + piece);
    stream.next_out = content.data() + before;
    stream.avail_out = static_cast<uInt>(piece);
    const int status = inflate(&stream, Z_NO_FLUSH);
    content.resize(before + piece - stream.avail_out);
    if (content.size() > limit)
      throw FileError(name, "gzip content", "at most " + std::to_string(limit) + " bytes", "more");
    const bool input_left = stream.avail_in > 0 || used < compressed.size();
    if (status == Z_STREAM_END) {
      if (!input_left) return content;
      if (inflateReset(&stream) != Z_OK) throw FileError(name, "zlib cannot go on");
    } else if (status == Z_BUF_ERROR && !input_left) {
      throw FileError(name, "gzip data", "a complete stream",
                      "one cut off after " + std::to_string(content.size()) + " bytes of content");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      throw FileError(name, "gzip data", "an intact stream",
                      std::string(stream.msg ? stream.msg : "damage") + " after " +
                          std::to_string(content.size()) + " bytes of content");
    }
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

}  // namespace orthobatch
