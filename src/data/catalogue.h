#pragma once
// The data sets by name, and where their files are.

#include <string>
#include <vector>

#include "data/images.h"

namespace orthobatch {

/// A training and a test set with the scale of the net's input.
struct DataSet {
  std::string name;
  ImageSet train, test;
  InputScale scale;  ///< measured on the training set
};

const std::vector<std::string>& data_names();
/// Throws std::invalid_argument with the names there are.
void require_data_name(const std::string& name);

/// `option` where it is given, else $ORTHOBATCH_DATA, else orthobatch in the user's cache folder.
std::string data_directory(const std::string& option);

/// The folder of a set's files: a folder of its name in the data folder, or the data folder itself
/// where the files are there.
std::string data_folder(const std::string& name, const std::string& directory);

/// Reads and verifies a data set, and measures its scale; "svhn" has the extra images where their
/// file is there, "svhn-train" never; `subset` > 0 keeps the first so many training images.
DataSet load_data(const std::string& name, const std::string& directory, int64_t subset = 0);

}  // namespace orthobatch
