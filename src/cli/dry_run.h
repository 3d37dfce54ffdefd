#pragma once
// What train would do, without doing it.

#include <string>

#include "run/config.h"

namespace orthobatch {
struct DataSet;
}

namespace orthobatch::cli {

/// Throws where a training with this config could not begin: the data, the sizes of the maps, the
/// share of each process. What remains is divergence, and a disk that fills up.
void check_training(const TrainConfig& config, const DataSet& data);

/// Throws FileError where the folder of a new run could not be made.
void check_place_of_run(const std::string& path);

/// The config as JSON that --config takes back, on standard output.
void print_config(const TrainConfig& config);

}  // namespace orthobatch::cli
