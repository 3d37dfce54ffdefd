#pragma once
// MNIST, and Fashion-MNIST, which has its form: four idx files.

#include <string>
#include <vector>

#include "data/images.h"

namespace orthobatch::data {

/// One of the four files.
struct MnistFile {
  const char* name;  ///< "train-images-idx3-ubyte"; with .gz where it is compressed
  const char* md5;   ///< of its uncompressed content
};

struct MnistSet {
  std::string name;              ///< as --data takes it
  std::string title;             ///< as people call it
  std::vector<MnistFile> files;  ///< images and labels for training, images and labels for testing
};
const MnistSet& mnist();
const MnistSet& fashion_mnist();

const std::vector<std::string>& fashion_classes();

/// Training and test set from a folder, checksums verified.
void load_mnist(const MnistSet& set, const std::string& folder, ImageSet& train, ImageSet& test);

/// Copies the four files, raw or gzip, from `source` to `folder` as raw files, verified before the
/// first is written.
void install_mnist(const MnistSet& set, const std::string& source, const std::string& folder);

}  // namespace orthobatch::data
