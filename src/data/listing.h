#pragma once
// A folder of images, a folder for each class: which files there are, and what each is for.

#include <cstdint>
#include <string>
#include <vector>

#include "data/workers.h"
#include "io/pixels.h"

namespace orthobatch::data {

struct ImageFile {
  std::string path;
  int label = 0;       ///< its class
  bool test = false;   ///< else for training
  uint64_t order = 0;  ///< a hash of CLASS/NAME
  io::PixelSize size;
};

struct ImageListing {
  std::vector<std::string> classes;  ///< by name, numbers by their value
  std::vector<ImageFile> files;    ///< in the order of their hashes: any first part has all classes
  std::vector<std::string> bad;    ///< what cannot be used, and why: a line each
  std::vector<std::string> notes;  ///< what was left out with good reason
};

/// DIR/train/CLASS/… and DIR/test/CLASS/… where both are there (or training; testing, val, valid,
/// validation); else DIR/CLASS/…, of which a file is for testing where its hash is divisible by 10,
/// or, where a class has none such, the one with the least hash; but never the only one of its
/// class. So a file stays where it is when others come or go. Files whose head is not that of an
/// image are left out. Hidden files are passed over, folders within a class searched, links to
/// folders in them not followed; other links are, but out of the folder only with `follow_links`.
ImageListing list_images(const std::string& folder, bool follow_links, int threads,
                         const Progressed& progressed = {});

}  // namespace orthobatch::data
