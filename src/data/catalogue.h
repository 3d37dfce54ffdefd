#pragma once
// The data sets by name, and where their files are.

#include <optional>
#include <string>
#include <vector>

#include "data/images.h"
#include "data/workers.h"

namespace orthobatch::data {

/// A training and a test set with the scale of the net's input.
struct DataSet {
  std::string name;
  ImageSet train, test;
  InputScale scale;                  ///< measured on the training set
  std::vector<std::string> classes;  ///< their names, in the order of labels
  std::string checksum;              ///< of all pixels and labels, as they were read

  // Of a user's own pictures:
  bool own = false;
  std::string folder;              ///< where they were read
  std::vector<std::string> bad;    ///< files that cannot be used, and why: a line each
  std::vector<std::string> notes;  ///< what else there is to say, a line each
  double listing_seconds = 0, reading_seconds = 0;
};

const std::vector<std::string>& data_names();
/// Classes where nothing else is said of them: "0" to "9".
const std::vector<std::string>& digit_names();
/// Whether a name is that of a folder of one's own: one with a slash.
bool is_own_data(const std::string& name);
/// What to call a data set where others read it: of a folder its name, not where it is.
std::string data_title(const std::string& name);
/// Throws std::invalid_argument with the names there are, unless it is one or that of a folder.
void require_data_name(const std::string& name);
/// What a user writes as a run records it: one of the names, or a folder's absolute path. Throws as
/// require_data_name.
std::string resolve_data(const std::string& text);
/// As a run records it: no "..", no slash at its end.
std::string absolute_folder(const std::string& path);

/// `option` where it is given, else $ORTHOBATCH_DATA, else orthobatch in the user's cache folder.
std::string data_directory(const std::string& option);

/// The folder of a set's files: a folder of its name in the data folder, or the data folder itself
/// where the files are there.
std::string data_folder(const std::string& name, const std::string& directory);

/// Reads and verifies a data set, and measures its scale; "svhn" has the extra images where their
/// file is there, "svhn-train" never; `subset` > 0 keeps the first so many training images.
DataSet load_data(const std::string& name, const std::string& directory, int64_t subset = 0);

/// MD5 of shape, pixels and labels of both sets: other images, in another order or with other labels
/// have another.
std::string checksum_of(const ImageSet& train, const ImageSet& test);

/// Everything that can be asked of the reading of a data set.
struct DataRequest {
  std::string name;
  std::string data_dir;  ///< as the user gave it; empty: the usual place
  int64_t subset = 0;

  // Of a user's own pictures:
  std::string image_size = {};  ///< "32x32"; empty: as docs/data.md says
  bool follow_links = false;    ///< also those that lead out of the folder
  int threads = 1;
  Progressed progressed = {};
  // To be answered by a net: its input and its classes; the training set is not needed then.
  std::optional<ImageShape> shape = {};
  std::vector<std::string> classes = {};
  bool test_only = false;
};
DataSet load_data(const DataRequest& request);

}  // namespace orthobatch::data
