#include "data/mat.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/text.h"
#include "io/file.h"

namespace orthobatch::data {
namespace {

enum ElementType : uint32_t {
  mi_int8 = 1,
  mi_int32 = 5,
  mi_uint32 = 6,
  mi_matrix = 14,
  mi_compressed = 15
};

template <typename T>
double number_at(const uint8_t* bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof number);
  return static_cast<double>(number);
}

struct NumberType {
  uint32_t code;
  const char* name;
  int bytes;
  double (*number)(const uint8_t*);
};

template <typename T>
constexpr NumberType number_type(uint32_t code, const char* name) {
  return {code, name, sizeof(T), number_at<T>};
}

constexpr NumberType number_types[] = {
    number_type<int8_t>(1, "int8"),    number_type<uint8_t>(2, "uint8"),
    number_type<int16_t>(3, "int16"),  number_type<uint16_t>(4, "uint16"),
    number_type<int32_t>(5, "int32"),  number_type<uint32_t>(6, "uint32"),
    number_type<float>(7, "single"),   number_type<double>(9, "double"),
    number_type<int64_t>(12, "int64"), number_type<uint64_t>(13, "uint64")};

constexpr uint32_t first_numeric_class = 6, last_numeric_class = 15;  // double … uint64
constexpr uint32_t largest_name = 63, largest_rank = 8;
constexpr int64_t largest_count = int64_t{1} << 40;

uint32_t word_at(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

/// An element's head. Small data, up to four bytes, is in the head itself.
struct Tag {
  uint32_t type = 0, size = 0;
  bool small = false;
  uint8_t data[4] = {};
};

/// Reads the elements of one variable, or of the file.
class Elements {
 public:
  Elements(io::Source& source, std::string file) : source_(source), file_(std::move(file)) {}

  void exactly(void* out, size_t n, const std::string& field) {
    size_t done = 0;
    while (done < n) {
      const size_t got = source_.read(static_cast<uint8_t*>(out) + done, n - done);
      if (got == 0) fail(field, base::bytes_text(n), base::bytes_text(done) + ", then the end");
      done += got;
    }
  }

  Tag tag(const std::string& field) {
    uint8_t head[8];
    exactly(head, sizeof head, field);
    return decode(head);
  }

  static Tag decode(const uint8_t* head) {
    Tag tag;
    const uint32_t first = word_at(head);
    tag.small = first >> 16 != 0;
    tag.type = tag.small ? first & 0xffff : first;
    tag.size = tag.small ? first >> 16 : word_at(head + 4);
    if (tag.small) std::memcpy(tag.data, head + 4, 4);
    return tag;
  }

  /// The data of a short element, padding taken too.
  std::vector<uint8_t> content(const std::string& field, uint32_t type, uint32_t least,
                               uint32_t most) {
    const Tag t = tag(field);
    if (t.type != type) fail(field + ": type", std::to_string(type), std::to_string(t.type));
    if (t.size < least || t.size > most || (t.small && t.size > 4))
      fail(field + ": size", base::bytes_text(least) + " to " + base::bytes_text(most),
           base::bytes_text(t.size));
    std::vector<uint8_t> data(t.size);
    if (t.small) {
      std::copy_n(t.data, t.size, data.begin());
    } else {
      data.resize((t.size + 7) / 8 * 8);
      exactly(data.data(), data.size(), field);
      data.resize(t.size);
    }
    return data;
  }

  void skip(uint64_t n, const std::string& field) {
    std::vector<uint8_t> piece(static_cast<size_t>(std::min<uint64_t>(n, 1 << 18)));
    while (n > 0) {
      const auto now = static_cast<size_t>(std::min<uint64_t>(n, piece.size()));
      exactly(piece.data(), now, field);
      n -= now;
    }
  }

  [[noreturn]] void fail(const std::string& field, const std::string& expected,
                         const std::string& found) const {
    throw io::FileError(file_, field, expected, found);
  }

 private:
  io::Source& source_;
  std::string file_;
};

void read_header(Elements& file) {
  uint8_t header[128];
  file.exactly(header, sizeof header, "header");
  const std::string text(reinterpret_cast<const char*>(header), 19);
  if (text.rfind("MATLAB 7.3", 0) == 0)
    file.fail("header", "MAT version 5", "version 7.3 (HDF5); save it with -v7");
  if (std::memcmp(header + 126, "IM", 2) != 0)
    file.fail("header", "'IM' at byte 126 (MAT version 5, little-endian)", "others");
  if (header[124] != 0 || header[125] != 1)
    file.fail("header: version", "0x0100",
              std::to_string(header[125]) + "." + std::to_string(header[124]));
}

/// Reads to the end: padding, what nobody asked for, and the checksum at a stream's end.
void drain(io::Source& source) {
  std::vector<uint8_t> rest(1 << 16);
  while (source.read(rest.data(), rest.size()) > 0) {
  }
}

}  // namespace

class MatReader {
 public:
  MatReader(io::Source& source, const std::string& file, const MatVisitor& visit)
      : source_(source), file_(file), visit_(visit) {}

  void read() {
    Elements top(source_, file_);
    read_header(top);
    for (int number = 1;; ++number) {
      uint8_t head[8];
      const size_t got = source_.read(head, sizeof head);
      if (got == 0) return;
      const std::string field = "element " + std::to_string(number);
      if (got < sizeof head) top.fail(field, "a head of 8 bytes", base::bytes_text(got));
      const Tag tag = Elements::decode(head);
      if (tag.small || (tag.type != mi_matrix && tag.type != mi_compressed))
        top.fail(field + ": type", "14 (matrix) or 15 (compressed)", std::to_string(tag.type));
      io::SliceSource slice(source_, tag.size);
      const Visit next = tag.type == mi_compressed ? compressed(slice, field) : variable(slice);
      if (next == Visit::stop) return;
      drain(slice);
    }
  }

 private:
  Visit compressed(io::Source& slice, const std::string& field) {
    io::InflateSource inflated(slice, file_);
    Elements elements(inflated, file_);
    const Tag matrix = elements.tag(field);
    if (matrix.type != mi_matrix)
      elements.fail(field + ": compressed type", "14 (matrix)", std::to_string(matrix.type));
    const Visit next = variable(inflated);
    if (next == Visit::go_on) drain(inflated);
    return next;
  }

  Visit variable(io::Source& source) {
    Elements elements(source, file_);
    MatVariable v;
    Tag data;
    if (!describe(elements, v, data)) return Visit::go_on;
    const std::string field = v.name + ": data";
    uint64_t left = data.size;
    v.read_ = [&](void* out, size_t n) {
      if (n > left) elements.fail(field, base::bytes_text(n), base::bytes_text(left) + " left");
      if (data.small)
        std::memcpy(out, data.data + (data.size - left), n);
      else
        elements.exactly(out, n, field);
      left -= n;
    };
    if (visit_(v) == Visit::stop) return Visit::stop;
    if (!data.small) elements.skip(left, field);
    return Visit::go_on;
  }

  /// All of the variable but its data; false for what is no numeric array.
  static bool describe(Elements& elements, MatVariable& v, Tag& data) {
    const auto flags = elements.content("array flags", mi_uint32, 8, 8);
    const uint32_t array_class = flags[0];
    if (array_class < first_numeric_class || array_class > last_numeric_class) return false;
    if (flags[1] & 0x08) elements.fail("array flags", "real numbers", "complex ones");
    const auto sizes = elements.content("dimensions", mi_int32, 8, 4 * largest_rank);
    v.count = 1;
    for (size_t i = 0; i + 4 <= sizes.size(); i += 4) {
      const auto size = static_cast<int32_t>(word_at(sizes.data() + i));
      v.dimensions.push_back(size);
      if (size < 0 || (size > 0 && v.count > largest_count / size))
        elements.fail("dimension " + std::to_string(i / 4 + 1), "0 or more, less in all",
                      std::to_string(size));
      v.count *= size;
    }
    const auto name = elements.content("name", mi_int8, 0, largest_name);
    v.name.assign(name.begin(), name.end());
    data = elements.tag(v.name + ": data");
    const NumberType* type = std::find_if(std::begin(number_types), std::end(number_types),
                                          [&](const NumberType& t) { return t.code == data.type; });
    if (type == std::end(number_types))
      elements.fail(v.name + ": data type", "a numeric one", std::to_string(data.type));
    v.type = type->name;
    v.bytes_each = type->bytes;
    v.number_ = type->number;
    const int64_t size = v.count * v.bytes_each;
    if (static_cast<int64_t>(data.size) != size || (data.small && size > 4))
      elements.fail(
          v.name + ": data", base::bytes_text(size) + " for " + v.shape_text(),
          base::bytes_text(data.size) + (data.small ? " in a small element, which holds 4" : ""));
    return true;
  }

  io::Source& source_;
  const std::string& file_;
  const MatVisitor& visit_;
};

std::string MatVariable::shape_text() const {
  std::string out;
  for (const int64_t d : dimensions) out += (out.empty() ? "" : "x") + std::to_string(d);
  return out + " " + type;
}

std::vector<double> MatVariable::values() const {
  std::vector<double> out;
  std::vector<uint8_t> piece;
  for (int64_t done = 0; done < count;) {
    const int64_t n = std::min<int64_t>(count - done, 1 << 16);
    piece.resize(static_cast<size_t>(n * bytes_each));
    read(piece.data(), n);
    for (int64_t i = 0; i < n; ++i) out.push_back(number_(piece.data() + i * bytes_each));
    done += n;
  }
  return out;
}

void read_mat(io::Source& source, const std::string& file, const MatVisitor& visit) {
  MatReader(source, file, visit).read();
}

}  // namespace orthobatch::data
