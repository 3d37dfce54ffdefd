#include "train/net.h"

#include <torch/nn/init.h>
#include <torch/utils.h>

#include "data/images.h"

namespace orthobatch {
namespace {

constexpr double initial_deviation = 0.5;  // of the logits

}  // namespace

BlockImpl::BlockImpl(int64_t in_channels, const BlockConfig& config) {
  // Output size = input size / stride, for even fov at stride 2 as for odd fov at stride 1.
  const int64_t padding = (config.fov - 1) / 2;
  conv = register_module(
      "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(in_channels, config.channels, config.fov)
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
    blocks.push_back(
        register_module("block" + std::to_string(blocks.size() + 1), Block(channels, config)));
    channels = config.channels;
  }
  fc = register_module("fc", torch::nn::Linear(channels, digit_classes));
  for (Block& block : blocks)
    block->conv->weight.set_data(block->conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  name_layers(*this);
}

torch::Tensor DigitNetImpl::features(torch::Tensor x) {
  for (Block& block : blocks) x = block(x);
  return x.mean({2, 3});
}

torch::Tensor DigitNetImpl::forward(const torch::Tensor& x) { return fc(features(x)); }

void DigitNetImpl::set_alpha(double alpha) {
  for (Block& block : blocks) block->norm->options.momentum(1 - alpha);
}

void initialize(DigitNet& net, const torch::Tensor& first_batch) {
  const torch::NoGradGuard no_grad;
  const auto he = [](torch::Tensor& weight, torch::Tensor& bias) {
    torch::nn::init::kaiming_normal_(weight, 0, torch::kFanIn, torch::kReLU);
    bias.zero_();
  };
  for (Block& block : net->blocks) he(block->conv->weight, block->conv->bias);
  he(net->fc->weight, net->fc->bias);
  net->train();
  const double deviation = net(first_batch).var(0, /*unbiased=*/false).mean().sqrt().item<double>();
  if (deviation > 0) net->fc->weight.mul_(initial_deviation / deviation);
  for (Block& block : net->blocks) block->norm->reset_running_stats();
}

void refresh_statistics(DigitNet& net, int64_t batches,
                        const std::function<torch::Tensor()>& next) {
  const torch::NoGradGuard no_grad;
  const bool was_training = net->is_training();
  net->train();
  std::vector<c10::optional<double>> momenta;
  for (Block& block : net->blocks) {
    momenta.push_back(block->norm->options.momentum());
    block->norm->reset_running_stats();
    block->norm->options.momentum(c10::nullopt);
  }
  for (int64_t i = 0; i < batches; ++i) net->features(next());
  for (size_t i = 0; i < momenta.size(); ++i) net->blocks[i]->norm->options.momentum(momenta[i]);
  net->train(was_training);
}

}  // namespace orthobatch
