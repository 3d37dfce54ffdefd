#include "bench/shapes.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/core.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <sstream>
#include <stdexcept>

namespace orthobatch::bench {
namespace {

constexpr int64_t most_values = int64_t{1} << 28;  // 1 GiB of floats

bool read_shape(const std::string& text, Shape& s) {
  size_t end = 0;
  return std::sscanf(text.c_str(), "%ldx%ldx%ldx%ld%zn", &s.batch, &s.channels, &s.height, &s.width,
                     &end) == 4 &&
         end == text.size() && s.batch > 0 && s.channels > 0 && s.height > 0 && s.width > 0;
}

void check_size(const Shape& shape) {
  double values = 1;
  for (const int64_t size : {shape.batch, shape.channels, shape.height, shape.width})
    values *= static_cast<double>(size);
  if (values > static_cast<double>(most_values) || shape.samples() < 2)
    throw std::invalid_argument(
        fmt::format("expected 2 samples or more a channel and at most {} values, found {}",
                    most_values, to_string(shape)));
}

torch::Tensor in_layout(const torch::Tensor& rows, const Shape& s, Layout layout) {
  const torch::Tensor x = rows.view({s.batch, s.height, s.width, s.channels}).permute({0, 3, 1, 2});
  return layout == Layout::channels_last ? x : x.contiguous();
}

}  // namespace

std::string to_string(const Shape& s) {
  return fmt::format("{}x{}x{}x{}", s.batch, s.channels, s.height, s.width);
}

const std::vector<Shape>& standard_shapes() {
  static const std::vector<Shape> shapes = {
      {256, 16, 28, 28}, {256, 64, 14, 14},  {256, 128, 14, 14}, {256, 32, 32, 32},
      {256, 64, 16, 16}, {256, 128, 16, 16}, {32, 256, 8, 8},    {64, 512, 7, 7}};
  return shapes;
}

std::vector<Shape> parse_shapes(const std::string& text) {
  std::vector<Shape> out;
  std::istringstream items(text + ",");
  for (std::string item; std::getline(items, item, ',');) {
    Shape shape{};
    if (!read_shape(item, shape))
      throw std::invalid_argument(
          fmt::format("expected BATCHxCHANNELSxHEIGHTxWIDTH, as 256x64x14x14, found '{}'", item));
    check_size(shape);
    out.push_back(shape);
  }
  return out;
}

const char* name_of(Layout layout) {
  return layout == Layout::channels_last ? "channels_last" : "nchw";
}

torch::Tensor layer_input(const Shape& s, Layout layout) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{1});
  const torch::Tensor mix = torch::randn({s.channels, s.channels}, generator) /
                            std::sqrt(static_cast<double>(s.channels));
  const torch::Tensor rows = torch::randn({s.samples(), s.channels}, generator);
  return in_layout(rows.matmul(mix).relu_(), s, layout);
}

torch::Tensor layer_gradient(const Shape& s, Layout layout) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{2});
  return in_layout(torch::randn({s.samples(), s.channels}, generator), s, layout);
}

}  // namespace orthobatch::bench
