#include "train/net.h"

#include <torch/nn/init.h>
#include <torch/utils.h>

#include "data/images.h"

namespace orthobatch {

BlockImpl::BlockImpl(int64_t in_channels, const BlockConfig& config) {
  // Output size = input size / stride, for even fov at stride 2 as for odd fov at stride 1.
  const int64_t padding = (config.fov - 1) / 2;
  conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(
                                                       in_channels, config.channels, config.fov)
                                                       .stride(config.stride)
                                                       .padding(padding)));
  norm = register_module("norm", BatchOrtho2d(config.channels, config.layer));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x) {
  // In place: a convolution's backward pass does not need its output.
  return norm(conv(x).relu_());
}

DigitNetImpl::DigitNetImpl(int64_t in_channels, const std::vector<BlockConfig>& configs) {
  int64_t channels = in_channels;
  for (const BlockConfig& config : configs) {
    blocks.push_back(register_module("block" + std::to_string(blocks.size() + 1),
                                     Block(channels, config)));
    channels = config.channels;
  }
  fc = register_module("fc", torch::nn::Linear(channels, digit_classes));
  for (Block& block : blocks)
    block->conv->weight.set_data(
        block->conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  name_layers(*this);
}

torch::Tensor DigitNetImpl::forward(torch::Tensor x) {
  for (Block& block : blocks) x = block(x);
  return fc(x.mean({2, 3}));
}

void DigitNetImpl::set_alpha(double alpha) {
  for (Block& block : blocks) block->norm->options.momentum(1 - alpha);
}

void initialize(DigitNetImpl& net) {
  const torch::NoGradGuard no_grad;
  const auto he = [](torch::Tensor& weight, torch::Tensor& bias) {
    torch::nn::init::kaiming_normal_(weight, 0, torch::kFanIn, torch::kReLU);
    bias.zero_();
  };
  for (Block& block : net.blocks) he(block->conv->weight, block->conv->bias);
  he(net.fc->weight, net.fc->bias);
}

}  // namespace orthobatch
