#include "bench/step.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "data/images.h"
#include "train/net.h"

namespace orthobatch::bench {
namespace {

struct Contestant {
  Contestant(std::string name, std::function<torch::Tensor(const torch::Tensor&)> forward,
             const std::vector<torch::Tensor>& parameters, const ScheduleRules& rules)
      : name(std::move(name)),
        forward(std::move(forward)),
        optimizer(std::make_unique<torch::optim::SGD>(parameters,
                                                      torch::optim::SGDOptions(rules.learning_rate)
                                                          .momentum(rules.momentum)
                                                          .weight_decay(rules.weight_decay))) {}

  void step(const torch::Tensor& x, const torch::Tensor& y) {
    const torch::Tensor loss = torch::nn::functional::cross_entropy(forward(x), y);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
  }

  std::string name;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  std::unique_ptr<torch::optim::SGD> optimizer;
};

/// DigitNet with a flat head, of torch's modules alone; ReLU in place and weights channels last, as
/// in ours.
Contestant torch_contestant(const ImageShape& image, const TrainConfig& config) {
  torch::nn::Sequential blocks;
  int64_t channels = image.channels;
  for (const BlockConfig& block : config.net.blocks) {
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(channels, block.channels, block.fov)
                               .stride(block.stride)
                               .padding(padding_of(config.net, block)));
    conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    blocks->push_back(conv);
    blocks->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
    blocks->push_back(torch::nn::BatchNorm2d(block.channels));
    channels = block.channels;
  }
  const auto [height, width] = map_sizes(config.net, image.height, image.width).back();
  torch::nn::Linear fc(channels * height * width, digit_classes);
  std::vector<torch::Tensor> parameters = blocks->parameters();
  for (const torch::Tensor& p : fc->parameters()) parameters.push_back(p);
  const auto forward = [blocks, fc](const torch::Tensor& x) mutable {
    return fc(blocks->forward(x).flatten(1));
  };
  return {torch_net, forward, parameters, config.schedule};
}

Contestant our_contestant(const char* name, const torch::Tensor& x, const TrainConfig& config) {
  DigitNet net(ImageShape{x.size(2), x.size(3), x.size(1)}, config.net);
  initialize(net, x, config.net.initial_deviation);
  return {name, [net](const torch::Tensor& input) mutable { return net(input); }, net->parameters(),
          config.schedule};
}

}  // namespace

StepResult measure_step(const std::string& data, int64_t batch, const Session& session) {
  const bool svhn = data == "svhn";
  const int64_t channels = svhn ? 3 : 1, side = svhn ? 32 : 28;
  at::set_num_threads(session.threads);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{1});
  const torch::Tensor x =
      torch::rand({batch, side, side, channels}, generator).permute({0, 3, 1, 2});
  const torch::Tensor y = torch::randint(digit_classes, {batch}, generator, torch::kLong);

  std::vector<Contestant> contestants;
  contestants.push_back(torch_contestant({side, side, channels}, paper_config(data, "BN")));
  contestants.push_back(our_contestant(bn_net, x, paper_config(data, "BN")));
  contestants.push_back(our_contestant(zca_net, x, paper_config(data, "ZCA(1e-5,1e12)")));

  StepResult result{data, batch, {}};
  for (const Contestant& c : contestants) result.rows.push_back({c.name, {}, 0});
  std::vector<std::function<void(bool)>> work;
  for (size_t i = 0; i < contestants.size(); ++i)
    work.emplace_back([&, i](bool counted) {
      const double start = now();
      contestants[i].step(x, y);
      if (counted) result.rows[i].times.each.push_back(1e3 * (now() - start));
    });
  interleave(work, session, session.repeats, /*warm_up=*/true, "step of the " + data + " net");
  for (StepTimes& row : result.rows)
    row.images_per_second = 1e3 * static_cast<double>(batch) / row.times.median();
  return result;
}

}  // namespace orthobatch::bench
