#include "bench/exchange.h"

#include <fmt/core.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>

#include "bench/sections.h"
#include "orthobatch/modules.h"
#include "orthobatch/tools.h"
#include "train/gradient_sum.h"

namespace orthobatch::bench {
namespace {

constexpr const char* layer = "ZCA(1e-5)";
constexpr const char* resnet_conv = "3x3 convolution of ResNet-50";

Table measure_collectives(ranks::Ranks& ranks, const Session& session) {
  Table table{"exchange", fmt::format("{} processes", ranks.size())};
  std::vector<Contestant> contestants;
  // From a layer of 16 channels to the gradients of a small net.
  for (const int64_t bytes : {256, 4096, 32768, 131072, 1 << 20, 4 << 20}) {
    torch::Tensor t = torch::ones({bytes / 8}, torch::kDouble);
    const auto exchange = [group = ranks.statistics(), t]() mutable {
      const double gather = milliseconds([&] { group->gather(t); });
      const double sum = milliseconds([&] { group->sum(t); });
      t.fill_(1);
      return Sample{{gather_part, gather}, {sum_part, sum}};
    };
    contestants.push_back({fmt::format("{} bytes", bytes), exchange});
  }
  run_in_turn(contestants, session, table);
  return table;
}

/// Forward and backward pass of the paper's net; over the ranks where they are given.
Contestant digit_step(const std::string& row, const std::string& data, int64_t images,
                      ranks::Ranks* ranks) {
  const torch::Tensor x = input_of(data, images), y = torch::arange(images) % data::digit_classes;
  train::DigitNet net = digit_net(data, layer, x);
  const auto pass = [model = model_of(net), x, y] {
    torch::nn::functional::cross_entropy(model.forward(x), y).backward();
  };
  if (!ranks) return {row, [pass] { return Sample{{total_part, milliseconds(pass)}}; }};
  convert_sync(*net, ranks->statistics());
  const auto gradients = std::make_shared<train::GradientSum>(net->parameters(), *ranks);
  return {row, [pass, gradients, ranks] {
            ranks->sum(torch::zeros({1}, torch::kDouble));  // all begin together
            return Sample{{total_part, milliseconds([&] {
                             gradients->begin();
                             pass();
                             gradients->finish();
                           })}};
          }};
}

/// 128 to 128 channels on 28×28 places.
Contestant convolution_step(int64_t images) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(128, 128, 3).padding(1));
  const torch::Tensor x = torch::randn({images, 128, 28, 28})
                              .contiguous(torch::MemoryFormat::ChannelsLast)
                              .requires_grad_();
  return {resnet_conv, [conv, x]() mutable {
            return Sample{{total_part, milliseconds([&] { conv(x).sum().backward(); })}};
          }};
}

std::string step_row(const std::string& data, int64_t images) {
  return fmt::format("{}, {} images", data, images);
}

NetLoad load_of_digits(const std::string& data, int64_t images, const Table& steps) {
  NetLoad out{fmt::format("{}, {}", data, layer), images};
  train::DigitNet net = digit_net(data, layer, input_of(data, 2));
  for (const train::Block& block : net->blocks)
    out.add_layer(block->norm->weight.size(0), block->norm->weight.size(0));
  for (const torch::Tensor& p : net->parameters()) out.gradients += static_cast<double>(p.nbytes());
  const double half = steps.median(step_row(data, images / 2)),
               whole = steps.median(step_row(data, images));
  out.seconds_image = (whole - half) / 1e3 / static_cast<double>(images / 2);
  out.seconds_fixed = std::max(0.0, (2 * half - whole) / 1e3);
  return out;
}

/// ResNet-50 with groups of 64 channels, 32 images of 224×224 a rank. Its computing is that of its
/// multiplications at the rate of one of its convolutions, which is measured.
NetLoad load_of_resnet50(double seconds_per_multiplication) {
  constexpr int64_t group_size = 64;
  constexpr double parameters = 25.6e6, multiplications = 4.1e9;  // of an image, forward
  NetLoad out{fmt::format("ResNet-50, ZCA(1e-5,group_size={})", group_size), 32, true};
  const auto add = [&](int64_t channels) { out.add_layer(channels, group_size); };
  add(64);
  int64_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int b = 0; b < blocks; ++b)
      for (const int64_t channels : {width, width, 4 * width}) add(channels);
    add(4 * width);  // beside the first block
    width *= 2;
  }
  out.gradients = 4 * parameters;
  out.seconds_image = multiplications * seconds_per_multiplication;
  return out;
}

}  // namespace

double Link::gather(double bytes, int64_t ranks, int64_t count) const {
  return static_cast<double>(ranks - 1) * (static_cast<double>(count) * latency + bytes / rate);
}

double Link::sum(double bytes, int64_t ranks, int64_t count) const {
  return 2 * gather(bytes / static_cast<double>(ranks), ranks, count);
}

/// t = a·latency + b/rate with relative weights is linear in both.
Link fit_link(const Table& collectives, int64_t ranks) {
  double aa = 0, ab = 0, bb = 0, at = 0, bt = 0;
  const auto add = [&](double rounds, double bytes, double milliseconds) {
    const double t = milliseconds / 1e3, a = rounds / t, b = rounds * bytes / t;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    at += a;
    bt += b;
  };
  const auto rounds = static_cast<double>(ranks - 1);
  for (const Row& row : collectives.rows) {
    const double bytes = std::stod(row.name);
    add(rounds, bytes, row.find(gather_part)->median());
    add(2 * rounds, bytes / static_cast<double>(ranks), row.find(sum_part)->median());
  }
  const double determinant = aa * bb - ab * ab;
  return {(at * bb - bt * ab) / determinant, determinant / (bt * aa - at * ab)};
}

/// Statistics are a count, means and one half of each block; sums are blocks and a vector.
void NetLoad::add_layer(int64_t channels, int64_t block) {
  block = std::min(block, channels);
  const auto n = static_cast<double>(channels), g = static_cast<double>(block);
  ++layers;
  forward += 8 * (1 + n + n * (g + 1) / 2);
  backward += 8 * (n * g + n);
}

double NetLoad::step(int64_t ranks, const Link& link) const {
  const double share = on_each ? 1 : static_cast<double>(ranks);
  const double compute = seconds_fixed + seconds_image * static_cast<double>(images) / share;
  const int64_t sharing = statistics_ranks > 0 ? std::min(statistics_ranks, ranks) : ranks;
  const double sums = link.sum(backward, sharing, layers) + link.sum(gradients, ranks);
  // What is summed travels while the backward pass, two thirds of the work, goes on.
  return compute + link.gather(forward, sharing, layers) + std::max(0.0, sums - 2.0 / 3 * compute);
}

double NetLoad::speed_up(int64_t ranks, const Link& link) const {
  return (on_each ? static_cast<double>(ranks) : 1) * step(1, link) / step(ranks, link);
}

Exchanges measure_exchanges(ranks::Ranks& ranks, const Session& session, bool quick) {
  Exchanges out;
  out.ranks = ranks.size();
  out.collectives = measure_collectives(ranks, session);
  out.link = fit_link(out.collectives, out.ranks);

  const int64_t images = quick ? 16 : 256, of_conv = quick ? 1 : 8;
  const char* const nets[] = {"mnist", "svhn"};
  std::vector<Contestant> contestants = {convolution_step(of_conv)};
  for (const char* data : nets) {
    for (const int64_t n : {images / 2, images})
      contestants.push_back(digit_step(step_row(data, n), data, n, nullptr));
    contestants.push_back(digit_step(step_row(data, images) + " over the ranks", data,
                                     std::max<int64_t>(1, ranks.share_of_work().size(images)),
                                     &ranks));
  }
  out.steps = {"step", "of the paper's nets"};
  run_in_turn(contestants, session, out.steps);

  for (const char* data : nets) out.nets.push_back(load_of_digits(data, images, out.steps));
  const double conv_multiplications = static_cast<double>(of_conv) * 28 * 28 * 128 * 128 * 9;
  out.nets.push_back(load_of_resnet50(out.steps.median(resnet_conv) / 1e3 / conv_multiplications));
  out.nets.push_back(out.nets.back());
  out.nets.back().statistics_ranks = 8;
  out.nets.back().name += ", statistics of 8 ranks";
  return out;
}

}  // namespace orthobatch::bench
