#pragma once
// SVHN, "cropped digits": X, uint8 32×32×3×n by columns, and y, n labels 1 … 10 (10 is digit 0).

#include <string>
#include <vector>

#include "data/images.h"
#include "io/source.h"

namespace orthobatch::data {

struct SvhnFile {
  const char* name;  ///< "train_32x32.mat"
  const char* part;  ///< "train"
  const char* md5;   ///< of the official file
  int64_t images;    ///< in the official file
};
/// train, test, extra.
const std::vector<SvhnFile>& svhn_files();

/// Appends the images of one file to `into`; reads it in order, a few images at a time.
void read_svhn(io::Source& source, const std::string& name, ImageSet& into);

/// How many images a file says it has.
int64_t count_svhn(const std::string& path);

/// Training set (with the extra images where `extra`) and test set from a folder.
void load_svhn(const std::string& folder, bool extra, ImageSet& train, ImageSet& test);

}  // namespace orthobatch::data
