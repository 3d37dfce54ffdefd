#pragma once
// Checkpoints as 0.1 wrote them, and zip files as whoever likes may make them.

#include <torch/serialize.h>

#include <string>
#include <utility>
#include <vector>

#include "io/checksum.h"
#include "io/stored_zip.h"
#include "train/checkpoint.h"

namespace orthobatch::test {

/// The tensors of a module and of those inside it: layers of 0.1 had no spec beside them.
inline void save_tensors(const torch::nn::Module& module,
                         torch::serialize::OutputArchive& archive) {
  for (const auto& p : module.named_parameters(/*recurse=*/false))
    archive.write(p.key(), p.value());
  for (const auto& b : module.named_buffers(/*recurse=*/false))
    archive.write(b.key(), b.value(), /*is_buffer=*/true);
  for (const auto& child : module.named_children()) {
    torch::serialize::OutputArchive inner(archive.compilation_unit());
    save_tensors(*child.value(), inner);
    archive.write(child.key(), inner);
  }
}

/// The archive of 0.1, without its seal.
inline std::string archive_0_1(const std::string& config, const std::string& state,
                               const DigitNet& net, const torch::optim::SGD& optimizer) {
  torch::serialize::OutputArchive archive, weights, momenta;
  save_tensors(*net, weights);
  optimizer.save(momenta);
  archive.write("format", c10::IValue("orthobatch checkpoint 1"));
  archive.write("config", c10::IValue(config));
  archive.write("state", c10::IValue(state));
  archive.write("net", weights);
  archive.write("optimizer", momenta);
  std::string bytes;
  archive.save_to([&](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  return bytes;
}

/// With its MD5 as the zip comment.
inline std::string sealed(std::string archive) {
  const std::string comment = "orthobatch md5 " + md5_hex(archive.data(), archive.size());
  archive[archive.size() - 2] = static_cast<char>(comment.size());
  return archive + comment;
}

/// Names and contents.
using ZipFiles = std::vector<std::pair<std::string, std::string>>;

inline ZipFiles files_of(const std::string& archive) {
  const Bytes bytes(archive.begin(), archive.end());
  ZipFiles out;
  for (const ZipEntry& entry : read_zip_directory(bytes, "archive"))
    out.emplace_back(entry.name, zip_text(bytes, entry, bytes.size() * 100, "archive"));
  return out;
}

inline void put_number(std::string& out, size_t value, size_t size) {
  for (size_t i = 0; i < size; ++i, value >>= 8)
    out += static_cast<char>(value & 255);  // beyond its own bytes, zeros
}

/// All of them stored as they are; `method` only says otherwise.
inline std::string zip_of(const ZipFiles& files, size_t method = 0) {
  std::string out, directory;
  for (const auto& [name, content] : files) {
    std::string fields;  // from the version to the length of the extra field
    for (const size_t field : {size_t{0}, size_t{0}, method, size_t{0}, size_t{0}})
      put_number(fields, field, 2);
    for (const size_t field : {size_t{0}, content.size(), content.size()})
      put_number(fields, field, 4);
    put_number(fields, name.size(), 2);
    put_number(fields, 0, 2);
    put_number(directory, 0x02014b50, 4);
    put_number(directory, 0, 2);
    directory += fields;
    put_number(directory, 0, 10);
    put_number(directory, out.size(), 4);
    directory += name;
    put_number(out, 0x04034b50, 4);
    out += fields + name + content;
  }
  const size_t begin = out.size();
  out += directory;
  put_number(out, 0x06054b50, 4);
  put_number(out, 0, 4);
  put_number(out, files.size(), 2);
  put_number(out, files.size(), 2);
  put_number(out, directory.size(), 4);
  put_number(out, begin, 4);
  put_number(out, 0, 2);
  return out;
}

}  // namespace orthobatch::test
