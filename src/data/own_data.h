#pragma once
// A user's own pictures: a folder for each class, or idx files. docs/data.md has the rules.

#include <string>
#include <vector>

#include "data/catalogue.h"

namespace orthobatch::data {

/// The folder of a set of one's own: that of its name, or, where another place is given, a folder
/// of that name there, or that place itself.
std::string own_folder(const DataRequest& request);

/// What the heads of the files tell, before the images are read.
struct OwnSurvey {
  int64_t train_images = 0;
  int width = 0, height = 0;  ///< that the images will have
  bool grey = false;          ///< all are stored as grey
};
OwnSurvey survey_own(const DataRequest& request);

DataSet load_own(const DataRequest& request);

}  // namespace orthobatch::data
