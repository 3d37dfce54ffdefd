// Training steps and inference of whole nets.

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/core.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>

#include "bench/sections.h"
#include "data/random.h"
#include "data/synthetic.h"
#include "nn/sequential.h"
#include "orthobatch/folded.h"

namespace orthobatch::bench {
namespace {

using torch::nn::Sequential;

enum class Norm { none, torch, ours };

/// The contestants of a step.
struct Kind {
  const char* name;
  Norm norm;
  bool whitens = false;  ///< else BN
  bool folded = false;
  int64_t sample_stride = 1;
};
constexpr Kind kinds[] = {
    {no_norm_row, Norm::none},
    {torch_row, Norm::torch},
    {"ours, BN", Norm::ours},
    {"ours, ZCA, not folded", Norm::ours, true},
    {"ours, ZCA, folded", Norm::ours, true, true},
    {"ours, ZCA, folded, sample_stride 2", Norm::ours, true, true, 2},
    {"ours, ZCA, folded, sample_stride 3", Norm::ours, true, true, 3},
};
constexpr const char* digit_zca = "ZCA(1e-5)";
constexpr const char* stack_zca = "ZCA(1e-5,group_size=64)";

/// Channels last, also by the strides of a single channel, which would else count as contiguous.
torch::Tensor channels_last(const torch::Tensor& x) {
  const torch::Tensor last = x.permute({0, 2, 3, 1});
  return torch::empty(last.sizes()).copy_(last).permute({0, 3, 1, 2});
}

torch::Tensor standardized(const torch::Tensor& x) {
  return channels_last((x - x.mean()) / x.std());
}

torch::Tensor drawn_digits(int64_t batch) {
  constexpr int64_t side = 28;
  data::Random random(1);
  const torch::Tensor x = torch::empty({batch, 1, side, side}, torch::kByte);
  for (int64_t i = 0; i < batch; ++i)
    data::draw_digit(static_cast<int>(i % data::digit_classes), random,
                     x.data_ptr<uint8_t>() + i * side * side);
  return standardized(x.to(torch::kFloat));
}

/// Colours as a camera sees them: near places alike, and so are the channels.
torch::Tensor photographs(int64_t batch, at::Generator& g) {
  constexpr int64_t side = 32, channels = 3;
  const auto enlarged = [&](int64_t of_channels) {
    return torch::upsample_bilinear2d(torch::rand({batch, of_channels, side / 4, side / 4}, g),
                                      {side, side}, /*align_corners=*/false);
  };
  const torch::Tensor light = enlarged(1), colour = enlarged(channels),
                      noise = torch::rand({batch, channels, side, side}, g);
  return standardized(0.6 * light + 0.3 * colour + 0.1 * noise);
}

/// What a convolution makes of noise, after ReLU.
torch::Tensor feature_maps(int64_t batch, at::Generator& g) {
  const torch::Tensor noise = torch::randn({batch, 64, 32, 32}, g),
                      weight = torch::randn({64, 64, 3, 3}, g) / 24;
  return channels_last(torch::conv2d(noise, weight, {}, 1, 1).relu_());
}

void push_norm(Sequential& net, const Kind& kind, int64_t channels) {
  if (kind.norm == Norm::torch) net->push_back(torch::nn::BatchNorm2d(channels));
  if (kind.norm == Norm::ours)
    net->push_back(BatchOrtho2d(BatchOrthoOptions(channels, kind.whitens ? stack_zca : "BN")
                                    .sample_stride(kind.sample_stride)));
}

/// As a user of torch writes it at best: ReLU in place, channels last.
void push_conv(Sequential& net, const torch::nn::Conv2dOptions& options) {
  torch::nn::Conv2d conv(options);
  conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  net->push_back(conv);
  net->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
}

/// train::DigitNet with a flat head, of torch's modules alone.
Sequential torch_digit_net(const Kind& kind, const run::NetConfig& config, const torch::Tensor& x) {
  Sequential net;
  int64_t channels = x.size(1);
  for (const run::BlockConfig& block : config.blocks) {
    push_conv(net, torch::nn::Conv2dOptions(channels, block.channels, block.fov)
                       .stride(block.stride)
                       .padding(run::padding_of(config, block)));
    push_norm(net, kind, channels = block.channels);
  }
  const auto [height, width] = run::map_sizes(config, x.size(2), x.size(3)).back();
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(channels * height * width, data::digit_classes));
  return net;
}

/// A layer, a convolution, ReLU: in the paper's order, two of each width.
Sequential stack_net(const Kind& kind, int64_t widest) {
  Sequential net;
  int64_t channels = 64;
  push_norm(net, kind, channels);
  for (int64_t width = 64; width <= widest; width *= 2)
    for (const bool first : {true, false}) {
      push_conv(net, torch::nn::Conv2dOptions(channels, width, 3)
                         .padding(1)
                         .stride(first && width > channels ? 2 : 1));
      push_norm(net, kind, channels = width);
    }
  net->push_back(torch::nn::AdaptiveAvgPool2d(1));
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(channels, data::digit_classes));
  return kind.folded ? fold_training(net) : net;
}

Model net_of(const Kind& kind, const std::string& data, const torch::Tensor& x, int64_t widest) {
  if (data == "stack") return model_of(stack_net(kind, widest));
  if (kind.norm != Norm::ours)
    return model_of(torch_digit_net(kind, run::paper_config(data, "BN").net, x));
  return model_of(
      digit_net(data, kind.whitens ? digit_zca : "BN", x, kind.folded, kind.sample_stride));
}

Sequential without_layers(const Sequential& net) {
  Sequential out;
  for (const nn::Element& element : nn::elements_of(net))
    if (!nn::as<BatchOrtho2dImpl>(element.module)) out->push_back(element.name, element.module);
  out->eval();
  return out;
}

}  // namespace

torch::Tensor input_of(const std::string& data, int64_t batch) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{1});
  if (data == "mnist") return drawn_digits(batch);
  return data == "stack" ? feature_maps(batch, generator) : photographs(batch, generator);
}

train::DigitNet digit_net(const std::string& data, const std::string& spec, const torch::Tensor& x,
                          bool folded, int64_t sample_stride) {
  run::NetConfig config = run::paper_config(data, spec).net;
  config.fold = folded;
  config.sample_stride = sample_stride;
  train::DigitNet net(data::ImageShape{x.size(2), x.size(3), x.size(1)}, config);
  train::initialize(net, x, config.initial_deviation);
  return net;
}

Table measure_step(const std::string& data, int64_t batch, const Session& session, int64_t widest) {
  const torch::Tensor x = input_of(data, batch), y = torch::arange(batch) % data::digit_classes;
  Table table{"step", fmt::format("{}, batch {}", data, batch)};
  std::vector<Contestant> contestants;
  for (const Kind& kind : kinds) {
    const Model net = net_of(kind, data, x, widest);
    const auto optimizer = std::make_shared<torch::optim::SGD>(
        net.parameters, torch::optim::SGDOptions(/*lr=*/1e-3).momentum(0.9));
    const auto step = [net, optimizer, x, y] {
      return Sample{{total_part, milliseconds([&] {
                       const auto loss = torch::nn::functional::cross_entropy(net.forward(x), y);
                       optimizer->zero_grad();
                       loss.backward();
                       optimizer->step();
                     })}};
    };
    contestants.push_back({kind.name, step, /*threads=*/0, /*returned_bytes=*/0});
  }
  run_in_turn(contestants, session, table);
  return table;
}

Table measure_inference(const std::string& data, int64_t batch, int64_t images,
                        const Session& session) {
  const torch::NoGradGuard no_grad;
  train::DigitNet net = digit_net(data, digit_zca, input_of(data, 64));
  net(input_of(data, 64));  // its statistics
  net->eval();
  const torch::Tensor x = input_of(data, batch);
  const int64_t passes = std::max<int64_t>(1, images / batch);
  const auto contestant = [&](const char* name, const Model& model) {
    return Contestant{name, [model, x, passes] {
                        const double took = milliseconds([&] {
                          for (int64_t i = 0; i < passes; ++i) model.forward(x);
                        });
                        return Sample{{total_part, took / static_cast<double>(passes)}};
                      }};
  };
  Table table{"inference", fmt::format("{}, batch {}", data, batch)};
  run_in_turn({contestant(no_norm_row, model_of(without_layers(net->as_sequential()))),
               contestant("ours, ZCA, fold(net)", model_of(fold(net->as_sequential()))),
               contestant("ours, ZCA, in evaluation", model_of(net))},
              session, table);
  return table;
}

}  // namespace orthobatch::bench
