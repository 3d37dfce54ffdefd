#pragma once

#include <string>
#include <vector>

#include "data/images.h"

namespace orthobatch::data {

/// One of MNIST's four files.
struct MnistFile {
  const char* name;  ///< "train-images-idx3-ubyte"; with .gz where it is compressed
  const char* md5;   ///< of its uncompressed content
};
const std::vector<MnistFile>& mnist_files();

/// The path of a file in a folder, as it is or with .gz; throws FileError when neither is there.
std::string find_mnist_file(const std::string& folder, const MnistFile& file);

/// Training and test set from a folder, checksums verified.
void load_mnist(const std::string& folder, ImageSet& train, ImageSet& test);

/// Copies the four files, raw or gzip, from `source` to `folder` as raw files, verified.
void install_mnist(const std::string& source, const std::string& folder);

}  // namespace orthobatch::data
