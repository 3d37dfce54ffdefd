#include "data/mnist.h"

#include "data/idx.h"
#include "io/checksum.h"

namespace orthobatch::data {
namespace {

io::Bytes read_verified(const std::string& path, const MnistFile& file) {
  io::Bytes bytes = read_maybe_gzip(path);
  parse_idx(bytes, path);  // what is wrong with its form says more than its sum
  const std::string found = io::md5_hex(bytes.data(), bytes.size());
  if (found != file.md5)
    throw io::FileError(path, "MD5 of the content", std::string(file.md5) + ", that of MNIST",
                        found);
  return bytes;
}

ImageSet load_pair(const std::string& folder, const MnistFile& images, const MnistFile& labels,
                   const std::string& name) {
  const std::string image_path = find_mnist_file(folder, images);
  const std::string label_path = find_mnist_file(folder, labels);
  Idx pixels = parse_idx(read_verified(image_path, images), image_path);
  const Idx answers = parse_idx(read_verified(label_path, labels), label_path);
  ImageSet set = images_from_idx(std::move(pixels), answers, image_path, label_path);
  set.name = name;
  return set;
}

}  // namespace

const std::vector<MnistFile>& mnist_files() {
  static const std::vector<MnistFile> files = {
      {"train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb"},
      {"train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624"},
      {"t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea"},
      {"t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637"}};
  return files;
}

std::string find_mnist_file(const std::string& folder, const MnistFile& file) {
  const std::string raw = io::join_path(folder, file.name);
  for (const std::string& path : {raw, raw + ".gz"})
    if (io::file_exists(path)) return path;
  throw io::FileError(raw, "file", "it or " + std::string(file.name) + ".gz",
                      "neither; 'orthobatch data get mnist' puts MNIST there");
}

void load_mnist(const std::string& folder, ImageSet& train, ImageSet& test) {
  const auto& files = mnist_files();
  train = load_pair(folder, files[0], files[1], "mnist train");
  test = load_pair(folder, files[2], files[3], "mnist test");
}

void install_mnist(const std::string& source, const std::string& folder) {
  io::make_directories(folder);
  for (const MnistFile& file : mnist_files()) {
    const io::Bytes bytes = read_verified(find_mnist_file(source, file), file);
    io::write_file(io::join_path(folder, file.name), bytes.data(), bytes.size());
  }
}

}  // namespace orthobatch::data
