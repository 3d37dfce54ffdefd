#include "train/net.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "orthobatch/tools.h"

namespace orthobatch::train {

BlockImpl::BlockImpl(int64_t in_channels, int64_t padding, const run::BlockConfig& config,
                     int64_t sample_stride) {
  conv = register_module(
      "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(in_channels, config.channels, config.fov)
                                    .stride(config.stride)
                                    .padding(padding)));
  norm = register_module(
      "norm",
      BatchOrtho2d(BatchOrthoOptions(config.channels, config.layer).sample_stride(sample_stride)));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x) {
  // In place: a convolution's backward pass does not need its output.
  return norm(conv(x).relu_());
}

DigitNetImpl::DigitNetImpl(const data::ImageShape& image, const run::NetConfig& config,
                           int64_t classes)
    : head_(config.head) {
  int64_t channels = image.channels;
  for (const run::BlockConfig& block : config.blocks) {
    blocks.push_back(register_module(
        "block" + std::to_string(blocks.size() + 1),
        Block(channels, run::padding_of(config, block), block, config.sample_stride)));
    channels = block.channels;
  }
  const auto sizes = run::map_sizes(config, image.height, image.width);
  largest_map_ = image.height * image.width * image.channels;
  for (size_t k = 0; k < config.blocks.size(); ++k)
    largest_map_ = std::max(largest_map_,
                            sizes[k + 1].first * sizes[k + 1].second * config.blocks[k].channels);
  const auto [height, width] = sizes.back();
  const int64_t places = height * width;
  flat_scale_ = std::pow(static_cast<double>(places), -config.flat_exponent);
  fc = register_module(
      "fc", torch::nn::Linear(head_ == run::Head::flat ? channels * places : channels, classes));
  for (Block& block : blocks)
    block->conv->weight.set_data(block->conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  name_layers(*this);

  const auto folds = [&](size_t k) {
    return config.fold && LayerSpec(config.blocks[k].layer).method() != "BN";
  };
  for (size_t k = 0; k + 1 < blocks.size(); ++k)
    folded_.push_back(folds(k) ? FoldedConv2d(blocks[k]->norm, blocks[k + 1]->conv)
                               : FoldedConv2d(nullptr));
  if (folds(blocks.size() - 1) && head_ != run::Head::max) {
    folded_fc_ = FoldedLinear(blocks.back()->norm, fc,
                              head_ == run::Head::average ? Pooling::average : Pooling::none);
    if (head_ == run::Head::flat) folded_fc_->scale = flat_scale_;
  }
}

torch::Tensor DigitNetImpl::before_last_layer(torch::Tensor x) {
  x = blocks[0]->conv(x).relu_();
  for (size_t k = 0; k + 1 < blocks.size(); ++k) {
    FoldedConv2d& folded = folded_[k];
    x = folded.is_empty() ? blocks[k + 1]->conv(blocks[k]->norm(x)) : folded(x);
    x = x.relu_();
  }
  return x;
}

torch::Tensor DigitNetImpl::read_by_fc(const torch::Tensor& z) {
  switch (head_) {
    case run::Head::average:
      return fc(z.mean({2, 3}));
    case run::Head::max:
      return fc(z.amax({2, 3}));
    case run::Head::flat:
      break;
  }
  // Scaling the product in place of its factor spares a pass over all places.
  return torch::addmm(fc->bias, z.flatten(1), fc->weight.t(), 1, flat_scale_);
}

torch::Tensor DigitNetImpl::forward(const torch::Tensor& x) {
  const torch::Tensor last = before_last_layer(x);
  if (!folded_fc_.is_empty()) return folded_fc_(last);
  return read_by_fc(blocks.back()->norm(last));
}

torch::nn::Sequential DigitNetImpl::as_sequential() const {
  torch::nn::Sequential out;
  for (size_t k = 0; k < blocks.size(); ++k) {
    const std::string number = std::to_string(k + 1);
    out->push_back("conv" + number, blocks[k]->conv);
    out->push_back("relu" + number, torch::nn::ReLU(/*inplace=*/true));
    out->push_back("norm" + number, blocks[k]->norm);
  }
  if (head_ == run::Head::average) out->push_back("average", torch::nn::AdaptiveAvgPool2d(1));
  if (head_ == run::Head::max) out->push_back("max", torch::nn::AdaptiveMaxPool2d(1));
  out->push_back("flatten", torch::nn::Flatten());
  torch::nn::Linear scaled(fc->options);
  const double scale = head_ == run::Head::flat ? flat_scale_ : 1;
  scaled->weight.set_data(fc->weight.detach() * scale);
  scaled->bias.set_data(fc->bias.detach().clone());
  out->push_back("fc", scaled);
  return out;
}

int64_t DigitNetImpl::images_at_once() const {
  constexpr int64_t bytes = int64_t{1} << 28, most = 500;
  return std::clamp<int64_t>(bytes / (4 * largest_map_), 1, most);
}

void DigitNetImpl::set_alpha(double alpha) {
  for (Block& block : blocks) block->norm->options.momentum(1 - alpha);
}

void initialize(DigitNet& net, const torch::Tensor& first_batch, double deviation) {
  const torch::NoGradGuard no_grad;
  const auto he = [](torch::Tensor& weight, torch::Tensor& bias) {
    torch::nn::init::kaiming_normal_(weight, 0, torch::kFanIn, torch::kReLU);
    bias.zero_();
  };
  for (Block& block : net->blocks) he(block->conv->weight, block->conv->bias);
  he(net->fc->weight, net->fc->bias);
  net->train();
  const double found = net(first_batch).var(0, /*unbiased=*/false).mean().sqrt().item<double>();
  if (found > 0) net->fc->weight.mul_(deviation / found);
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
  for (int64_t i = 0; i < batches; ++i) net->forward(next());
  for (size_t i = 0; i < momenta.size(); ++i) net->blocks[i]->norm->options.momentum(momenta[i]);
  net->train(was_training);
}

}  // namespace orthobatch::train
