#pragma once
// A trained net as other programs can run it: a few kinds of steps, none of them ours.

#include <torch/nn/modules/container/sequential.h>

#include <array>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/images.h"
#include "train/checkpoint.h"

namespace orthobatch::exporter {

/// What a model takes, always (images, channels, rows, columns).
enum class InputForm {
  bytes,   ///< uint8, 0 … 255
  floats,  ///< float, 0 … 255
  unit,    ///< float, 0 … 1
  scaled,  ///< float, less the mean, over the deviation of the training set's channels
};
const std::vector<std::string>& input_form_names();
/// Throws std::invalid_argument with the names there are.
InputForm parse_input_form(const std::string& name);
std::string to_string(InputForm form);

struct ConvStep {
  torch::Tensor weight, bias;  // (C_out, C_in/groups, rows, columns), C_out
  std::array<int64_t, 2> stride, dilation;
  std::array<int64_t, 4> pads;  // zeros above, left, below, right
  int64_t groups;
};
struct ReluStep {};
struct PoolStep {
  bool average;  // over all places; else the largest
};
struct FlattenStep {};
struct LinearStep {
  torch::Tensor weight, bias;  // (C_out, C_in), C_out
};
struct Step {
  std::string name;
  std::variant<ConvStep, ReluStep, PoolStep, FlattenStep, LinearStep> what;
};

/// The steps of a Sequential of Conv2d, ReLU, pooling over all places, Flatten and Linear. Throws
/// std::invalid_argument for any other module.
std::vector<Step> steps_of(const torch::nn::Sequential& net);

struct PlainNet {
  torch::nn::Sequential net{nullptr};  ///< takes floats, in evaluation
  std::vector<Step> steps;             ///< of it
  InputForm input = InputForm::bytes;
  data::ImageShape image;
  int64_t classes = 0;
  /// What a reader should know: layer, data, error, …; as model files take it.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// The net with its layers folded and the scale of its input inside.
PlainNet plain_net(const train::Checkpoint& checkpoint, InputForm input);

/// Bytes of images as the model's input: uint8 or float.
torch::Tensor as_input(const PlainNet& net, const data::InputScale& scale,
                       const torch::Tensor& bytes);

}  // namespace orthobatch::exporter
