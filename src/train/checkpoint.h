#pragma once
// Everything a run needs to go on exactly where it was, in one file: safetensors, which cannot run
// anything.

#include <torch/optim/sgd.h>

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "data/catalogue.h"
#include "io/file.h"
#include "train/net.h"
#include "train/train_state.h"

namespace orthobatch::train {

/// A checkpoint as read: all of it is checked, and fits together.
struct Checkpoint {
  std::string path;
  run::TrainConfig config;           ///< checked
  nlohmann::json found;              ///< what config.json records of the data
  data::ImageShape image;            ///< of that data …
  data::InputScale scale;            ///< … and the scale of the net's input
  std::vector<std::string> classes;  ///< their names
  std::string origin;                ///< of the run, as config.json has it
  TrainState state;
  DigitNet net{nullptr};               ///< with its weights and statistics
  std::vector<torch::Tensor> momenta;  ///< of each of its parameters; none before the first step
};

/// Writes net, optimizer and state at once or not at all. `config` is the text of config.json.
void save_checkpoint(const std::string& path, const std::string& config, const TrainState& state,
                     const DigitNet& net, const torch::optim::SGD& optimizer);

/// Reads a file from its bytes. Throws FileError where it is damaged, of another
/// program, or holds anything that a run of its config does not: a tensor too many or too few, one
/// of another type or shape, a number that is not finite, a state that no training reaches.
Checkpoint parse_checkpoint(io::Bytes bytes, const std::string& path);
Checkpoint read_checkpoint(const std::string& path);

/// Its test images, in the shape of its net and with the labels of its classes, be they a user's
/// own; with a name of another data set those. Throws FileError where it names a folder that may not
/// be read unasked (run/origin.h).
data::DataRequest test_request(const Checkpoint& checkpoint, const std::string& data,
                               const std::string& data_dir);

/// The momenta of the net's parameters; none before the first step.
std::vector<torch::Tensor> momenta_of(const DigitNet& net, const torch::optim::SGD& optimizer);
/// Gives a new optimizer of the checkpoint's net the momenta it had.
void restore_momenta(const std::vector<torch::Tensor>& momenta, const DigitNet& net,
                     torch::optim::SGD& optimizer);

}  // namespace orthobatch::train
