#pragma once
// The inputs a layer is measured on.

#include <torch/types.h>

#include <string>
#include <vector>

namespace orthobatch::bench {

struct Shape {
  int64_t batch, channels, height, width;

  int64_t samples() const { return batch * height * width; }  // M
  int64_t values() const { return samples() * channels; }
};

/// "256x64x14x14"
std::string to_string(const Shape& shape);

/// The inputs of the layers in the paper's two nets, three each, and two with many channels.
const std::vector<Shape>& standard_shapes();

/// Shapes separated by commas. Throws std::invalid_argument.
std::vector<Shape> parse_shapes(const std::string& text);

enum class Layout { channels_last, nchw };
const char* name_of(Layout layout);

/// What a convolution and ReLU hand to a layer: mixed normal values, the negative ones cut off.
/// The same for the same shape.
torch::Tensor layer_input(const Shape& shape, Layout layout);
/// The gradient that comes back to the layer.
torch::Tensor layer_gradient(const Shape& shape, Layout layout);

}  // namespace orthobatch::bench
