#include "bench/contestants.h"

#include <torch/torch.h>

#include "bench/step.h"
#include "data/images.h"
#include "orthobatch/folded.h"
#include "train/net.h"

namespace orthobatch::bench {
namespace {

using torch::nn::Sequential;

torch::nn::Conv2d channels_last_conv(const torch::nn::Conv2dOptions& options) {
  torch::nn::Conv2d conv(options);
  conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  return conv;
}

torch::nn::ReLU relu_in_place() {
  return torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true));
}

Contestant contestant(const char* name, Sequential net) {
  return {name, [net](const torch::Tensor& x) mutable { return net->forward(x); },
          net->parameters()};
}

/// DigitNet with a flat head, of torch's modules alone.
Contestant torch_digit_net(const ImageShape& image, const TrainConfig& config) {
  Sequential net;
  int64_t channels = image.channels;
  for (const BlockConfig& block : config.net.blocks) {
    net->push_back(channels_last_conv(torch::nn::Conv2dOptions(channels, block.channels, block.fov)
                                          .stride(block.stride)
                                          .padding(padding_of(config.net, block))));
    net->push_back(relu_in_place());
    net->push_back(torch::nn::BatchNorm2d(block.channels));
    channels = block.channels;
  }
  const auto [height, width] = map_sizes(config.net, image.height, image.width).back();
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(channels * height * width, digit_classes));
  return contestant(torch_net, net);
}

Contestant our_digit_net(const char* name, const torch::Tensor& x, const TrainConfig& config) {
  DigitNet net(ImageShape{x.size(2), x.size(3), x.size(1)}, config.net);
  initialize(net, x, config.net.initial_deviation);
  return {name, [net](const torch::Tensor& input) mutable { return net(input); },
          net->parameters()};
}

/// A layer, a convolution, ReLU: in the paper's order, eight times.
template <typename Norm>
Sequential stack_of(const Norm& norm) {
  const auto conv = [](int64_t in, int64_t out, int64_t stride) {
    return channels_last_conv(torch::nn::Conv2dOptions(in, out, 3).padding(1).stride(stride));
  };
  Sequential net;
  int64_t channels = 64;
  for (const int64_t width : {64, 128, 256, 512})
    for (const bool first : {true, false}) {
      net->push_back(norm(channels));
      net->push_back(conv(channels, width, first && width > channels ? 2 : 1));
      net->push_back(relu_in_place());
      channels = width;
    }
  net->push_back(norm(channels));
  net->push_back(torch::nn::AdaptiveAvgPool2d(1));
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(channels, digit_classes));
  return net;
}

Sequential our_stack(const char* spec, int64_t sample_stride = 1) {
  return stack_of([&](int64_t channels) {
    return BatchOrtho2d(BatchOrthoOptions(channels, spec).sample_stride(sample_stride));
  });
}

}  // namespace

Contestant::Contestant(std::string name_,
                       std::function<torch::Tensor(const torch::Tensor&)> forward_,
                       const std::vector<torch::Tensor>& parameters)
    : name(std::move(name_)),
      forward(std::move(forward_)),
      optimizer(std::make_unique<torch::optim::SGD>(
          parameters, torch::optim::SGDOptions(/*lr=*/1e-3).momentum(0.9))) {}

void Contestant::step(const torch::Tensor& x, const torch::Tensor& y) const {
  const torch::Tensor loss = torch::nn::functional::cross_entropy(forward(x), y);
  optimizer->zero_grad();
  loss.backward();
  optimizer->step();
}

std::vector<Contestant> digit_contestants(const std::string& data, const torch::Tensor& x) {
  const TrainConfig bn = paper_config(data, "BN");
  TrainConfig zca = paper_config(data, "ZCA(1e-5,1e12)");
  std::vector<Contestant> out;
  out.push_back(torch_digit_net(ImageShape{x.size(2), x.size(3), x.size(1)}, bn));
  out.push_back(our_digit_net(bn_net, x, bn));
  zca.net.fold = false;
  out.push_back(our_digit_net(unfolded_net, x, zca));
  zca.net.fold = true;
  for (const char* name : {folded_net, stride_2_net, stride_3_net}) {
    out.push_back(our_digit_net(name, x, zca));
    ++zca.net.sample_stride;
  }
  return out;
}

std::vector<Contestant> stack_contestants() {
  const char* zca = "ZCA(1e-5,group_size=64)";
  std::vector<Contestant> out;
  out.push_back(contestant(
      torch_net, stack_of([](int64_t channels) { return torch::nn::BatchNorm2d(channels); })));
  out.push_back(contestant(bn_net, our_stack("BN")));
  out.push_back(contestant(unfolded_net, our_stack(zca)));
  out.push_back(contestant(folded_net, fold_training(our_stack(zca))));
  out.push_back(contestant(stride_2_net, fold_training(our_stack(zca, 2))));
  out.push_back(contestant(stride_3_net, fold_training(our_stack(zca, 3))));
  return out;
}

}  // namespace orthobatch::bench
