#include "io/archive_0_1.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <set>

#include "base/text.h"
#include "io/checksum.h"
#include "io/pickle_0_1.h"
#include "io/stored_zip.h"

namespace orthobatch {
namespace {

using Kind = PickleValue::Kind;
using Entries = std::map<std::string, ZipEntry>;  // by name, without the archive's own

constexpr size_t largest_code = 1 << 20, largest_pickle = 1 << 28;
constexpr const char* seal_head = "orthobatch md5 ";
constexpr size_t md5_digits = 32;

bool starts_with(const std::string& text, const std::string& with) {
  return text.rfind(with, 0) == 0;
}

// ------------------------------------------------------------------------------- code

bool is_name(const std::string& text, const char* others) {
  const auto allowed = [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
           (c != '\0' && std::strchr(others, c) != nullptr);
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

/// A list of quoted names, or one: ["weight", "bias", ]
bool is_names(const std::string& text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  size_t quotes = 0;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    quotes += text[i] == '"';
    if (quotes % 2 == 0 && text[i] != '"' && text[i] != ',' && text[i] != ' ') return false;
    if (text[i] == '\\') return false;
  }
  return quotes % 2 == 0;
}

/// Whether a line of a class only says what attributes it has.
bool declares(const std::string& line) {
  if (line.empty()) return true;
  if (starts_with(line, "class ")) return line == "class Module(Module):";
  if (!starts_with(line, "  ")) return false;
  const std::string body = line.substr(2);
  const size_t equals = body.find(" = "), colon = body.find(" : ");
  if (equals == std::string::npos)  // NAME : TYPE
    return colon != std::string::npos && is_name(body.substr(0, colon), "") &&
           is_name(body.substr(colon + 3), ".[], ");
  const std::string left = body.substr(0, equals), right = body.substr(equals + 3);
  static const std::string annotations = "__annotations__";
  if (left == "__parameters__" || left == "__buffers__" || left == annotations)
    return is_names(right);
  return starts_with(left, annotations) && is_names(left.substr(annotations.size())) &&
         is_name(right, ".[], ");
}

void refuse_code(const Bytes& bytes, const ZipEntry& entry, const std::string& path) {
  const std::string code = zip_text(bytes, entry, largest_code, path);
  for (size_t at = 0; at < code.size();) {
    const size_t end = std::min(code.find('\n', at), code.size());
    if (!declares(code.substr(at, end - at)))
      throw FileError(path, "archive", "a checkpoint: names and numbers alone",
                      "code in it, which is not run");
    at = end + 1;
  }
}

/// Every entry must be one that torch writes for a checkpoint; what may hold code is looked at.
Entries checked_entries(const Bytes& bytes, const std::string& path) {
  Entries out;
  std::string folder;
  for (const ZipEntry& entry : read_zip_directory(bytes, path)) {
    const std::string own = entry.name.substr(0, entry.name.find('/') + 1);
    if (folder.empty()) folder = own;
    const std::string name =
        entry.name.substr(folder.size() <= entry.name.size() ? folder.size() : 0);
    if (folder.empty() || own != folder)
      throw FileError(path, "archive", "one folder", "entries outside of it");
    const bool code = starts_with(name, "code/");
    if (entry.deflated && !code)
      throw FileError(path, "archive", "numbers that are stored as they are", "compressed ones");
    if (code && ends_with(name, ".py"))
      refuse_code(bytes, entry, path);
    else if (!(code && ends_with(name, ".debug_pkl")) && !starts_with(name, "data/") &&
             !starts_with(name, ".") && name != "data.pkl" && name != "constants.pkl" &&
             name != "version" && name != "byteorder")
      throw FileError(path, "archive", "the entries of a checkpoint", "others");
    out.emplace(name, entry);
  }
  const auto order = out.find("byteorder");
  if (order != out.end() && zip_text(bytes, order->second, 16, path) != "little")
    throw FileError(path, "archive: byteorder", "little", "another");
  return out;
}

// ---------------------------------------------------------------------------- content

class Content {
 public:
  Content(const Bytes& bytes, Entries entries, const std::string& path)
      : bytes_(bytes), entries_(std::move(entries)), path_(path) {}

  Safetensors take() {
    const auto pickle = entries_.find("data.pkl");
    if (pickle == entries_.end()) throw FileError(path_, "archive", "a data.pkl", "none");
    const PicklePointer root =
        parse_pickle_0_1(zip_text(bytes_, pickle->second, largest_pickle, path_), path_);
    static const std::set<std::string> names = {"format", "config", "state", "net", "optimizer"};
    for (const auto& member : root->members)
      if (names.count(member.first) == 0)
        throw FileError(path_, "archive", "the members of a checkpoint", "another");
    for (const char* key : {"format", "config", "state"})
      out_.metadata[key] = member(*root, key, Kind::text).text;
    add_tensors("net", member(*root, "net", Kind::module));
    add_momenta(member(*root, "optimizer", Kind::module));
    return std::move(out_);
  }

 private:
  const PickleValue& member(const PickleValue& module, const std::string& key, Kind kind) const {
    const auto it = module.members.find(key);
    if (it == module.members.end() || it->second->kind != kind)
      throw FileError(path_, "archive", "its " + key, "none");
    return *it->second;
  }

  void add_tensors(const std::string& name, const PickleValue& module) {
    for (const auto& [key, value] : module.members) {
      if (!is_name(key, "")) throw FileError(path_, "archive", "names of tensors", "others");
      if (value->kind == Kind::module)
        add_tensors(name + "." + key, *value);
      else
        add_tensor(name + "." + key, *value);
    }
  }

  /// The optimizer's state is by keys of its own; its one group lists them in the order of the
  /// net's parameters.
  void add_momenta(const PickleValue& optimizer) {
    const PickleValue& state = member(optimizer, "state", Kind::module);
    const PickleValue& groups = member(optimizer, "param_groups", Kind::module);
    const PickleValue& group = member(groups, "param_groups/0", Kind::module);
    size_t found = 0;
    for (size_t i = 0;; ++i) {
      const auto key = group.members.find("params/" + std::to_string(i));
      if (key == group.members.end()) break;
      const auto it = state.members.find(key->second->text);
      if (it == state.members.end()) continue;
      add_tensor("optimizer." + std::to_string(i),
                 member(*it->second, "momentum_buffer", Kind::tensor));
      ++found;
    }
    if (found != state.members.size())
      throw FileError(path_, "archive: optimizer", std::to_string(found) + " momenta",
                      std::to_string(state.members.size()));
  }

  void add_tensor(const std::string& name, const PickleValue& tensor);

  const Bytes& bytes_;
  const Entries entries_;
  const std::string& path_;
  std::set<std::string> used_;  ///< storages: each belongs to one tensor
  Safetensors out_;
};

void Content::add_tensor(const std::string& name, const PickleValue& tensor) {
  const std::string field = "archive: " + name;
  if (tensor.kind != Kind::tensor) throw FileError(path_, field, "a tensor", "something else");
  const PickleValue& storage = *tensor.items.front();
  const auto entry = entries_.find("data/" + storage.text);
  const uint64_t width = tensor.dtype == "F32" ? 4 : 8;
  if (entry == entries_.end() || entry->second.size % width != 0 ||
      entry->second.size / width != static_cast<uint64_t>(storage.integer))
    throw FileError(
        path_, field, std::to_string(storage.integer) + " numbers in its storage",
        entry == entries_.end() ? "no storage" : std::to_string(entry->second.size) + " bytes");
  if (!used_.insert(storage.text).second)
    throw FileError(path_, field, "a storage of its own", "another tensor's");

  // How many numbers it has and the last it reaches, against those there are. Each factor is
  // bounded by them first, and they by the size of a file: nothing overflows.
  const auto there = static_cast<uint64_t>(storage.integer);
  uint64_t count = 1, last = static_cast<uint64_t>(tensor.integer);
  bool inside = last <= there;
  for (size_t d = 0; d < tensor.shape.size() && inside; ++d) {
    const auto side = static_cast<uint64_t>(tensor.shape[d]);
    const auto stride = static_cast<uint64_t>(tensor.strides[d]);
    inside = side <= there && (side <= 1 || stride <= there / (side - 1));
    if (!inside) break;
    count *= side;
    if (side > 1) last += (side - 1) * stride;
    inside = count <= there && last <= there;
  }
  if (!inside || (count > 0 && last >= there))
    throw FileError(path_, field, "a shape inside its storage", "one beyond it");

  // Row-major order: the last index first.
  std::string numbers;
  numbers.reserve(count * width);
  std::vector<int64_t> index(tensor.shape.size(), 0);
  const auto* data = reinterpret_cast<const char*>(bytes_.data()) + entry->second.offset;
  for (uint64_t i = 0; i < count; ++i) {
    int64_t at = tensor.integer;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * tensor.strides[d];
    numbers.append(data + static_cast<uint64_t>(at) * width, width);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.shape[d]) break;
      index[d] = 0;
    }
  }
  out_.add(name, tensor.dtype, tensor.shape, numbers.data(), numbers.size());
}

}  // namespace

bool is_archive(const Bytes& bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "PK\3\4", 4) == 0;
}

void unseal_archive_0_1(Bytes& bytes, const std::string& path) {
  const size_t length = std::strlen(seal_head) + md5_digits;
  constexpr size_t end_of_zip = 22;
  if (bytes.size() < length + end_of_zip)
    throw FileError(path, "checkpoint", "a file that train wrote", "a damaged or foreign one");
  const std::string found(bytes.end() - static_cast<std::ptrdiff_t>(length), bytes.end());
  bytes.resize(bytes.size() - length);
  if (!starts_with(found, seal_head))
    throw FileError(path, "checkpoint", "the sum train ends it with",
                    "none: it is damaged (cut off?) or of another program");
  bytes[bytes.size() - 2] = 0;  // the length of the comment, which the sum leaves out
  if (const std::string sum = md5_hex(bytes.data(), bytes.size()); found != seal_head + sum)
    throw FileError(path, "checkpoint: MD5", found.substr(std::strlen(seal_head)),
                    sum + ": it is damaged");
}

Safetensors parse_archive_0_1(const Bytes& bytes, const std::string& path) {
  return Content(bytes, checked_entries(bytes, path), path).take();
}

}  // namespace orthobatch
