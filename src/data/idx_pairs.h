#pragma once
// A folder with idx files of one's own: NAME-images-idx3-ubyte and NAME-labels-idx1-ubyte, raw or
// gzip.

#include <string>
#include <vector>

#include "data/images.h"

namespace orthobatch::data {

struct IdxPair {
  std::string images, labels;  ///< paths
};

/// The pairs of a folder: none; one, whose images are divided; or one for training, whose name ends
/// in train, and one for testing, in test or t10k. Throws FileError for anything else, and for a link
/// that may not be followed.
std::vector<IdxPair> find_idx_pairs(const std::string& folder, bool follow_links);

/// Both sets, labels as they stand in the files. Of a single pair every tenth image is for testing.
void load_idx_pairs(const std::vector<IdxPair>& pairs, ImageSet& train, ImageSet& test);

}  // namespace orthobatch::data
