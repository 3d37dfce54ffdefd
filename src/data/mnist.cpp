#include "data/mnist.h"

#include "data/idx.h"
#include "io/checksum.h"

namespace orthobatch::data {
namespace {

/// The path of a file in a folder, as it is or with .gz.
std::string find_file(const MnistSet& set, const std::string& folder, const MnistFile& file) {
  const std::string raw = io::join_path(folder, file.name);
  for (const std::string& path : {raw, raw + ".gz"})
    if (io::file_exists(path)) return path;
  throw io::FileError(
      raw, "file", "it or " + std::string(file.name) + ".gz",
      "neither; 'orthobatch data get " + set.name + "' puts " + set.title + " there");
}

io::Bytes read_verified(const MnistSet& set, const std::string& path, const MnistFile& file) {
  io::Bytes bytes = read_maybe_gzip(path);
  parse_idx(bytes, path);  // what is wrong with its form says more than its sum
  const std::string found = io::md5_hex(bytes.data(), bytes.size());
  if (found != file.md5)
    throw io::FileError(path, "MD5 of the content",
                        std::string(file.md5) + ", that of " + set.title, found);
  return bytes;
}

ImageSet load_pair(const MnistSet& of, const std::string& folder, size_t first, const char* part) {
  const std::string image_path = find_file(of, folder, of.files[first]);
  const std::string label_path = find_file(of, folder, of.files[first + 1]);
  Idx pixels = parse_idx(read_verified(of, image_path, of.files[first]), image_path);
  const Idx answers = parse_idx(read_verified(of, label_path, of.files[first + 1]), label_path);
  ImageSet set = images_from_idx(std::move(pixels), answers, image_path, label_path);
  set.name = of.name + part;
  return set;
}

}  // namespace

const MnistSet& mnist() {
  static const MnistSet set = {"mnist",
                               "MNIST",
                               {{"train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb"},
                                {"train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624"},
                                {"t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea"},
                                {"t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637"}}};
  return set;
}

const MnistSet& fashion_mnist() {
  static const MnistSet set = {"fashion-mnist",
                               "Fashion-MNIST",
                               {{"train-images-idx3-ubyte", "f4a8712d7a061bf5bd6d2ca38dc4d50a"},
                                {"train-labels-idx1-ubyte", "9018921c3c673c538a1fc5bad174d6f9"},
                                {"t10k-images-idx3-ubyte", "8181f5470baa50b63fa0f6fddb340f0a"},
                                {"t10k-labels-idx1-ubyte", "15d484375f8d13e6eb1aabb0c3f46965"}}};
  return set;
}

const std::vector<std::string>& fashion_classes() {
  static const std::vector<std::string> classes = {
      "T-shirt/top", "trouser", "pullover", "dress", "coat",
      "sandal",      "shirt",   "sneaker",  "bag",   "ankle boot"};
  return classes;
}

void load_mnist(const MnistSet& set, const std::string& folder, ImageSet& train, ImageSet& test) {
  train = load_pair(set, folder, 0, " train");
  test = load_pair(set, folder, 2, " test");
}

void install_mnist(const MnistSet& set, const std::string& source, const std::string& folder) {
  std::vector<io::Bytes> contents;
  for (const MnistFile& file : set.files)
    contents.push_back(read_verified(set, find_file(set, source, file), file));
  io::make_directories(folder);
  for (size_t i = 0; i < contents.size(); ++i)
    io::write_file(io::join_path(folder, set.files[i].name), contents[i].data(),
                   contents[i].size());
}

}  // namespace orthobatch::data
