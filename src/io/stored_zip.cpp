#include "io/stored_zip.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <set>

namespace orthobatch {
namespace {

constexpr size_t end_size = 22, directory_entry_size = 46, local_header_size = 30;
constexpr size_t zip64_size = 56 + 20;  // its end record and the pointer to it
constexpr uint32_t end_mark = 0x06054b50, directory_mark = 0x02014b50, local_mark = 0x04034b50;
constexpr unsigned encrypted_flag = 1, stored_method = 0, deflated_method = 8;

[[noreturn]] void fail(const std::string& path, const std::string& expected,
                       const std::string& found) {
  throw FileError(path, "zip directory", expected, found + ": it is damaged");
}

/// Little-endian numbers; the caller has checked that they are there.
uint32_t number(const Bytes& bytes, size_t at, size_t size) {
  uint32_t n = 0;
  for (size_t i = 0; i < size; ++i) n |= uint32_t{bytes[at + i]} << (8 * i);
  return n;
}

std::string text(const Bytes& bytes, size_t at, size_t size) {
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

/// The entry at `at` of the directory, which ends at `end` and begins where the entries must end;
/// moves `at` on.
ZipEntry directory_entry(const Bytes& bytes, size_t& at, size_t begin, size_t end,
                         const std::string& path) {
  if (end - at < directory_entry_size || number(bytes, at, 4) != directory_mark)
    fail(path, "an entry at " + std::to_string(at), "none");
  ZipEntry entry;
  const unsigned flags = number(bytes, at + 8, 2), method = number(bytes, at + 10, 2);
  entry.stored = number(bytes, at + 20, 4);
  entry.size = number(bytes, at + 24, 4);
  const size_t name_size = number(bytes, at + 28, 2);
  const size_t length =
      directory_entry_size + name_size + number(bytes, at + 30, 2) + number(bytes, at + 32, 2);
  const size_t local = number(bytes, at + 42, 4);
  if (end - at < length) fail(path, "an entry's name", "its end");
  entry.name = text(bytes, at + directory_entry_size, name_size);
  at += length;

  entry.deflated = method == deflated_method;
  if ((flags & encrypted_flag) != 0 || (method != stored_method && !entry.deflated))
    fail(path, "entries that are stored or deflated", "another");
  if (!entry.deflated && entry.stored != entry.size) fail(path, "one size of an entry", "two");
  if (local > begin || begin - local < local_header_size || number(bytes, local, 4) != local_mark)
    fail(path, "a header before each entry", "none");
  const size_t local_name = number(bytes, local + 26, 2);
  const size_t header = local_header_size + local_name + number(bytes, local + 28, 2);
  if (begin - local < header || begin - local - header < entry.stored)
    fail(path, "entries that end before it", "one that does not");
  if (text(bytes, local + local_header_size, local_name) != entry.name)
    fail(path, "one name of an entry", "two");
  entry.offset = local + header;
  return entry;
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const Bytes& bytes, const std::string& path) {
  if (bytes.size() < end_size) fail(path, "a zip file", std::to_string(bytes.size()) + " bytes");
  const size_t last = bytes.size() - end_size;
  if (number(bytes, last, 4) != end_mark || number(bytes, last + 20, 2) != 0)
    fail(path, "a zip file", "another");
  const size_t count = number(bytes, last + 10, 2);
  const size_t size = number(bytes, last + 12, 4), begin = number(bytes, last + 16, 4);
  if (begin > last || size > last - begin) fail(path, "its place inside the file", "another");
  const size_t end = begin + size;
  if (last != end && last - end != zip64_size) fail(path, "its end after it", "something else");

  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  size_t at = begin;
  for (size_t i = 0; i < count; ++i) {
    entries.push_back(directory_entry(bytes, at, begin, end, path));
    if (!names.insert(entries.back().name).second) fail(path, "each name once", "one twice");
  }
  if (at != end) fail(path, std::to_string(count) + " entries", "something after them");
  std::sort(entries.begin(), entries.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < entries.size(); ++i) {
    const size_t before = entries[i - 1].offset + entries[i - 1].stored;
    const size_t header = local_header_size + entries[i].name.size();
    if (entries[i].offset < before + header) fail(path, "entries apart", "two that overlap");
  }
  return entries;
}

std::string zip_text(const Bytes& bytes, const ZipEntry& entry, size_t limit,
                     const std::string& path) {
  if (entry.size > limit || entry.stored > limit)
    throw FileError(path, "entry", "at most " + std::to_string(limit) + " bytes",
                    std::to_string(entry.size));
  if (!entry.deflated) return text(bytes, entry.offset, entry.size);
  std::string out(entry.size + 1, '\0');  // room for one more, to see that there is none
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  stream.next_in = const_cast<Bytef*>(bytes.data() + entry.offset);
  stream.avail_in = static_cast<uInt>(entry.stored);
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = ::inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.total_out == entry.size;
  ::inflateEnd(&stream);
  if (!whole) throw FileError(path, "entry", std::to_string(entry.size) + " bytes", "others");
  out.pop_back();
  return out;
}

}  // namespace orthobatch
