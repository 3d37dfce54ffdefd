#include "bench/plan.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>

#include "data/catalogue.h"
#include "orthobatch/modules.h"
#include "orthobatch/spec.h"
#include "train/gradient_sum.h"
#include "train/net.h"

namespace orthobatch::bench {
namespace {

/// Bytes of statistics (a count, means, one half of each block) and of the backward pass's sums.
void add_layer(NetLoad& net, int64_t channels, int64_t block) {
  const int64_t full = channels / block, rest = channels % block;
  const auto entries = [&](const auto& of) { return full * of(block) + of(rest); };
  const int64_t half = entries([](int64_t n) { return n * (n + 1) / 2; }),
                whole = entries([](int64_t n) { return n * n; });
  net.forward.push_back(8.0 * static_cast<double>(1 + channels + half));
  net.backward.push_back(8.0 * static_cast<double>(whole + channels));
}

ImageShape image_of(const std::string& data) {
  return data == "mnist" ? ImageShape{28, 28, 1} : ImageShape{32, 32, 3};
}

/// A net and what it trains on, random.
struct TrainedNet {
  TrainedNet(const std::string& data, const std::string& layer, int64_t images)
      : net(image_of(data), paper_config(data, layer).net) {
    const ImageShape shape = image_of(data);
    x = torch::randn({images, shape.channels, shape.height, shape.width})
            .contiguous(torch::MemoryFormat::ChannelsLast);
    y = torch::randint(digit_classes, {images}, torch::kLong);
    initialize(net, x, 0.05);
  }

  torch::Tensor loss() { return torch::nn::functional::cross_entropy(net(x), y); }

  DigitNet net;
  torch::Tensor x, y;
};

constexpr int64_t paper_batch = 256;

}  // namespace

double NetLoad::compute(int64_t ranks) const {
  const double images = batch > 0 ? static_cast<double>(batch) / static_cast<double>(ranks)
                                  : static_cast<double>(batch_each);
  return seconds_fixed + seconds_image * images;
}

double NetLoad::exchange(int64_t ranks, const Link& link) const {
  if (ranks == 1) return 0;
  double forwards = 0, sums = link.sum(gradients, ranks);
  for (const double bytes : forward) forwards += link.gather(bytes, sharing(ranks));
  for (const double bytes : backward) sums += link.sum(bytes, sharing(ranks));
  // What is summed travels while the backward pass, two thirds of the work, goes on.
  return forwards + std::max(0.0, sums - 2.0 / 3 * compute(ranks));
}

double NetLoad::speed_up(int64_t ranks, const Link& link) const {
  const double growth = batch > 0 ? 1 : static_cast<double>(ranks);
  return growth * step(1, link) / step(ranks, link);
}

int64_t NetLoad::rounds(int64_t ranks) const {
  const auto layers = static_cast<int64_t>(forward.size());
  return (sharing(ranks) - 1) * 3 * layers + (ranks - 1) * 2;
}

double NetLoad::bytes(int64_t ranks) const {
  const auto all = static_cast<double>(ranks), some = static_cast<double>(sharing(ranks));
  double out = 2 * gradients * (all - 1) / all;
  for (const double b : forward) out += b * (some - 1);
  for (const double b : backward) out += 2 * b * (some - 1) / some;
  return out;
}

int64_t NetLoad::sharing(int64_t ranks) const {
  return statistics_ranks > 0 ? std::min(statistics_ranks, ranks) : ranks;
}

int64_t paying_ranks(const NetLoad& net, const Link& link) {
  int64_t ranks = 1;
  while (ranks < most_planned_ranks &&
         net.speed_up(2 * ranks, link) >= 1.25 * net.speed_up(ranks, link))
    ranks *= 2;
  return ranks;
}

NetLoad measure_paper_net(const std::string& data, const std::string& layer, const Session& session,
                          bool small) {
  at::set_num_threads(session.threads);
  NetLoad out;
  out.name = fmt::format("{}, {}", data == "mnist" ? "MNIST" : "SVHN", layer);
  out.batch = paper_batch;
  const int64_t half = small ? 16 : paper_batch / 2, whole = 2 * half;
  TrainedNet at_half(data, layer, half), at_whole(data, layer, whole);
  for (const BlockConfig& block : paper_config(data, layer).net.blocks) {
    const int64_t group = LayerSpec(layer).group_size();
    add_layer(out, block.channels, group > 0 ? std::min(group, block.channels) : block.channels);
  }
  for (const torch::Tensor& p : at_whole.net->parameters())
    out.gradients += static_cast<double>(p.nbytes());
  Times times_half, times_whole;
  const auto step = [](TrainedNet& net, Times& times) {
    return [&](bool counted) {
      const double start = now();
      net.loss().backward();
      if (counted) times.each.push_back(now() - start);
    };
  };
  interleave({step(at_half, times_half), step(at_whole, times_whole)}, session, session.repeats,
             /*warm_up=*/true, "a step of " + out.name);
  out.seconds_image =
      (times_whole.median() - times_half.median()) / static_cast<double>(whole - half);
  out.seconds_fixed =
      std::max(0.0, times_whole.median() - out.seconds_image * static_cast<double>(whole));
  return out;
}

Times measure_step_over(const std::string& data, const std::string& layer, ranks::Ranks& ranks,
                        const Session& session, bool small) {
  at::set_num_threads(session.threads);
  const int64_t images = small ? 32 : paper_batch;
  TrainedNet net(data, layer, ranks.share_of_work().size(images));
  synchronize(*net.net, ranks.statistics());
  GradientSum gradients(net.net->parameters(), ranks);
  Times times;
  const auto step = [&](bool counted) {
    ranks.sum(torch::zeros({1}, torch::kDouble));  // all begin together
    const double start = now();
    gradients.begin();
    net.loss().backward();
    gradients.finish();
    if (counted) times.each.push_back(1e3 * (now() - start));
  };
  interleave({step}, session, session.repeats, /*warm_up=*/true, "a step over the ranks");
  synchronize(*net.net, nullptr);
  return times;
}

NetLoad estimate_resnet50(int64_t group_size, const Session& session, bool small) {
  NetLoad out;
  out.name = fmt::format("ResNet-50, ZCA(1e-5,group_size={})", group_size);
  out.batch_each = 32;
  const auto add = [&](int64_t channels) {
    add_layer(out, channels, std::min(group_size, channels));
  };
  add(64);
  int64_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int b = 0; b < blocks; ++b) {
      add(width);
      add(width);
      add(4 * width);
      if (b == 0) add(4 * width);  // beside the block
    }
    width *= 2;
  }
  constexpr double parameters = 25.6e6, multiplications = 4.1e9;  // of an image, forward
  out.gradients = 4 * parameters;

  at::set_num_threads(session.threads);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(128, 128, 3).padding(1));
  const int64_t images = small ? 1 : 8, side = 28;
  const torch::Tensor x = torch::randn({images, 128, side, side})
                              .contiguous(torch::MemoryFormat::ChannelsLast)
                              .requires_grad_();
  Times times;
  const auto pass = [&](bool counted) {
    const double start = now();
    conv(x).sum().backward();
    if (counted) times.each.push_back(now() - start);
  };
  interleave({pass}, session, session.repeats, /*warm_up=*/true, "a convolution of ResNet-50");
  const double of_conv = static_cast<double>(images * side * side) * 128 * 128 * 9;
  out.seconds_image = times.median() * multiplications / of_conv;
  return out;
}

}  // namespace orthobatch::bench
