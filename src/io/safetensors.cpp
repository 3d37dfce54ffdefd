#include "io/safetensors.h"

#include <zlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "io/json_fields.h"

namespace orthobatch::io {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t length_size = 8;               // of the header's length
constexpr uint64_t longest_header = 100000000;  // what Python's reader takes
constexpr int header_depth = 3;                 // the header, a tensor, its shape
constexpr const char* metadata_key = "__metadata__";

/// Bytes of one number; 0 for a type the format does not have.
size_t number_size(const std::string& dtype) {
  static const std::map<std::string, size_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8}};
  const auto it = sizes.find(dtype);
  return it == sizes.end() ? 0 : it->second;
}

/// The header as JSON: no deeper than the format has it, and no name twice in one object, where the
/// parser by itself would take the last.
json parse_header(const char* text, size_t size, const std::string& path) {
  std::vector<std::set<std::string>> names;
  const auto look = [&](int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= header_depth)
        throw FileError(path, "header", "lists and objects nested up to 3", "more");
      names.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      names.pop_back();
    } else if (event == Event::key &&
               !names.back().insert(value.get_ref<const std::string&>()).second) {
      throw FileError(path, "header", "each name once", value.dump() + " twice");
    }
    return true;
  };
  try {
    return json::parse(text, text + size, look);
  } catch (const json::exception&) {
    throw FileError(path, "header", "JSON", "something else: it is damaged");
  }
}

StoredTensor tensor_of(const std::string& name, const json& entry, const std::string& path) {
  const std::string field = "tensor " + json(name).dump();
  StoredTensor tensor;
  tensor.name = name;
  std::vector<uint64_t> offsets;
  try {
    // A double holds such counts exactly: larger ones are no sizes of files.
    const Range count = {0, 9007199254740992.0};
    JsonFields fields(entry, field, JsonFields::Kind::state);
    fields.text("dtype", tensor.dtype);
    fields.numbers("shape", tensor.shape, count);
    fields.numbers("data_offsets", offsets, count);
  } catch (const std::invalid_argument& error) {
    throw FileError(path, error.what());
  }
  if (entry.size() != 3)
    throw FileError(path, field, "dtype, shape and data_offsets", "something else");
  uint64_t size = number_size(tensor.dtype);
  if (size == 0) throw FileError(path, field, "a dtype of the format", json(tensor.dtype).dump());
  for (const int64_t side : tensor.shape) {
    const auto n = static_cast<uint64_t>(side);
    if (n > 0 && size > (uint64_t{1} << 62) / n)
      throw FileError(path, field + ": shape", "the numbers of a file", "more than any holds");
    size *= n;
  }
  if (offsets.size() != 2)
    throw FileError(path, field + ": data_offsets", "two", std::to_string(offsets.size()));
  if (offsets[1] < offsets[0] || offsets[1] - offsets[0] != size)
    throw FileError(path, field, std::to_string(size) + " bytes, as dtype and shape have it",
                    json(offsets).dump());
  tensor.offset = offsets[0];
  tensor.size = size;
  return tensor;
}

/// The tensors must fill the rest of the file, one after the other.
void place_tensors(std::vector<StoredTensor>& tensors, size_t start, size_t file_size,
                   const std::string& path) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::make_pair(a.offset, a.size) < std::make_pair(b.offset, b.size);
  });
  size_t next = 0;
  for (StoredTensor& tensor : tensors) {
    if (tensor.offset != next)
      throw FileError(path, "tensor " + json(tensor.name).dump(),
                      "its bytes at " + std::to_string(next),
                      "at " + std::to_string(tensor.offset));
    next += tensor.size;  // no overflow: each offset, and so each sum before it, is below 2^53
    tensor.offset += start;
  }
  if (next != file_size - start)
    throw FileError(path, "tensors", std::to_string(file_size - start) + " bytes, the rest of it",
                    std::to_string(next) + " in the header: it is damaged (cut off?)");
}

/// A field of the sum with its length before it, so that no two contents give the same bytes.
void add_to(uLong& sum, const void* data, size_t size) {
  const uint64_t length = size;
  sum = ::crc32_z(sum, reinterpret_cast<const Bytef*>(&length), sizeof length);
  if (size > 0) sum = ::crc32_z(sum, static_cast<const Bytef*>(data), size);
}
void add_to(uLong& sum, const std::string& text) { add_to(sum, text.data(), text.size()); }

}  // namespace

void Safetensors::add(const std::string& name, const std::string& dtype,
                      const std::vector<int64_t>& shape, const void* data, size_t size) {
  tensors.push_back({name, dtype, shape, bytes.size(), size});
  const auto* first = static_cast<const uint8_t*>(data);
  bytes.insert(bytes.end(), first, first + size);
}

Safetensors parse_safetensors(Bytes bytes, const std::string& path) {
  if (bytes.size() < length_size)
    throw FileError(path, "size", "8 bytes or more", std::to_string(bytes.size()));
  uint64_t length = 0;
  for (size_t i = 0; i < length_size; ++i) length |= uint64_t{bytes[i]} << (8 * i);
  const uint64_t most = std::min<uint64_t>(longest_header, bytes.size() - length_size);
  if (length > most)
    throw FileError(path, "header", "at most " + std::to_string(most) + " bytes",
                    std::to_string(length) + ": it is damaged or no safetensors file");
  Safetensors out;
  {
    const json header =
        parse_header(reinterpret_cast<const char*>(bytes.data()) + length_size, length, path);
    if (!header.is_object()) throw FileError(path, "header", "an object", "something else");
    for (const auto& [name, entry] : header.items()) {
      if (name != metadata_key) {
        out.tensors.push_back(tensor_of(name, entry, path));
        continue;
      }
      if (!entry.is_object()) throw FileError(path, metadata_key, "an object", "something else");
      for (const auto& [key, text] : entry.items()) {
        if (!text.is_string())
          throw FileError(path, std::string(metadata_key) + ": " + json(key).dump(), "a text",
                          "something else");
        out.metadata[key] = text.get<std::string>();
      }
    }
  }
  place_tensors(out.tensors, length_size + length, bytes.size(), path);
  out.bytes = std::move(bytes);
  return out;
}

std::string safetensors_text(const Safetensors& content, const std::string& path) {
  // Types of eight bytes first, as the format's own writer has them: so all of them are aligned.
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : content.tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return number_size(a->dtype) > number_size(b->dtype);
  });
  ordered_json header = ordered_json::object();
  if (!content.metadata.empty()) header[metadata_key] = content.metadata;
  size_t offset = 0;
  for (const StoredTensor* t : order) {
    header[t->name] = {
        {"dtype", t->dtype}, {"shape", t->shape}, {"data_offsets", {offset, offset + t->size}}};
    offset += t->size;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > longest_header)
    throw FileError(path, "header", "at most " + std::to_string(longest_header) + " bytes",
                    std::to_string(text.size()));
  std::string out;
  out.reserve(length_size + text.size() + offset);
  for (size_t i = 0; i < length_size; ++i)
    out += static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 255);
  out += text;
  for (const StoredTensor* t : order)
    out.append(reinterpret_cast<const char*>(content.bytes.data()) + t->offset, t->size);
  return out;
}

std::string content_checksum(const Safetensors& content, const std::string& except) {
  std::map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : content.tensors) by_name[tensor.name] = &tensor;
  uLong sum = ::crc32_z(0, nullptr, 0);
  for (const auto& [key, text] : content.metadata) {
    if (key == except) continue;
    add_to(sum, key);
    add_to(sum, text);
  }
  for (const auto& [name, tensor] : by_name) {
    add_to(sum, name);
    add_to(sum, tensor->dtype);
    add_to(sum, tensor->shape.data(), tensor->shape.size() * sizeof(int64_t));
    add_to(sum, content.bytes.data() + tensor->offset, tensor->size);
  }
  std::string digits(8, '0');
  for (size_t i = 0; i < digits.size(); ++i)
    digits[i] = "0123456789abcdef"[sum >> (28 - 4 * i) & 15];
  return digits;
}

}  // namespace orthobatch::io
