#pragma once
// Data sets as the verbs read them: how far it is on a terminal, and what is wrong with the files.

#include <CLI/CLI.hpp>

#include <string>

#include "data/own_data.h"

namespace orthobatch::cli {

struct Telling {
  bool silent = false;  ///< another process tells it
  bool quiet = false;   ///< only what is wrong
  bool strict = false;  ///< a file that cannot be used is an error
};

/// load_data. Files of a user's own that cannot be used are named on standard error, a line each up
/// to some; with `strict` that is the end.
data::DataSet read_data(data::DataRequest request, const Telling& telling = {});

/// survey_own: where files are not in memory yet, most of the waiting is here.
data::OwnSurvey look_at_data(data::DataRequest request, const Telling& telling = {});

CLI::Option* add_image_size(CLI::App& verb, std::string& size);

/// As many threads as are asked for; 0: as the machine has.
int all_threads(int asked = 0);

/// "1,234"
std::string count_text(int64_t n);

/// "28×28 pixels, grey, 3 classes"
std::string shape_text(const data::DataSet& data);

}  // namespace orthobatch::cli
