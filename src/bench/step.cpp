#include "bench/step.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>

#include "bench/contestants.h"
#include "bench/tensor_memory.h"
#include "data/images.h"
#include "data/random.h"
#include "data/synthetic.h"

namespace orthobatch::bench {
namespace {

/// Channels last, also by the strides of a single channel, which would else count as contiguous.
torch::Tensor channels_last(const torch::Tensor& x) {
  const torch::Tensor last = x.permute({0, 2, 3, 1});
  return torch::empty(last.sizes()).copy_(last).permute({0, 3, 1, 2});
}

/// Drawn digits, of mean 0 and deviation 1.
torch::Tensor drawn_digits(int64_t batch) {
  constexpr int64_t side = 28;
  Random random(1);
  torch::Tensor x = torch::empty({batch, 1, side, side}, torch::kByte);
  for (int64_t i = 0; i < batch; ++i)
    draw_digit(static_cast<int>(i % digit_classes), random,
               x.data_ptr<uint8_t>() + i * side * side);
  x = x.to(torch::kFloat);
  return channels_last((x - x.mean()) / x.std());
}

/// Colours as a camera sees them: near places alike, and so are the channels.
torch::Tensor photographs(int64_t batch, at::Generator& g) {
  constexpr int64_t side = 32, channels = 3;
  const torch::Tensor light = torch::rand({batch, 1, side / 4, side / 4}, g),
                      colour = torch::rand({batch, channels, side / 4, side / 4}, g),
                      noise = torch::rand({batch, channels, side, side}, g);
  const auto enlarged = [&](const torch::Tensor& x) {
    return torch::upsample_bilinear2d(x, {side, side}, /*align_corners=*/false);
  };
  const torch::Tensor x = 0.6 * enlarged(light) + 0.3 * enlarged(colour) + 0.1 * noise;
  return channels_last((x - x.mean()) / x.std());
}

/// What a convolution makes of noise, after ReLU.
torch::Tensor feature_maps(int64_t batch, at::Generator& g) {
  const torch::Tensor noise = torch::randn({batch, 64, 32, 32}, g),
                      weight = torch::randn({64, 64, 3, 3}, g) / 24;
  return channels_last(torch::conv2d(noise, weight, {}, 1, 1).relu_());
}

torch::Tensor input_of(const std::string& data, int64_t batch, at::Generator& g) {
  if (data == "mnist") return drawn_digits(batch);
  return data == stack ? feature_maps(batch, g) : photographs(batch, g);
}

int64_t peak_of_step(const Contestant& c, const torch::Tensor& x, const torch::Tensor& y) {
  TensorMemory memory;
  const int64_t before = memory.in_use();
  memory.reset_peak();
  c.step(x, y);
  return std::max<int64_t>(0, memory.peak() - before);
}

}  // namespace

const StepTimes* StepResult::find(const std::string& name) const {
  for (const StepTimes& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

StepResult measure_step(const std::string& data, int64_t batch, const Session& session) {
  at::set_num_threads(session.threads);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{1});
  const torch::Tensor x = input_of(data, batch, generator);
  const torch::Tensor y = torch::randint(digit_classes, {batch}, generator, torch::kLong);

  const std::vector<Contestant> contestants =
      data == stack ? stack_contestants() : digit_contestants(data, x);
  StepResult result{data, batch, {}};
  for (const Contestant& c : contestants) result.rows.push_back({c.name, {}, 0, 0});
  std::vector<std::function<void(bool)>> work;
  for (size_t i = 0; i < contestants.size(); ++i)
    work.emplace_back([&, i](bool counted) {
      const double start = now();
      contestants[i].step(x, y);
      if (counted) result.rows[i].times.each.push_back(1e3 * (now() - start));
    });
  interleave(work, session, session.repeats, /*warm_up=*/true, "step of the " + data + " net");
  for (size_t i = 0; i < contestants.size(); ++i) {
    StepTimes& row = result.rows[i];
    row.images_per_second = 1e3 * static_cast<double>(batch) / row.times.median();
    row.peak_bytes = peak_of_step(contestants[i], x, y);
  }
  return result;
}

}  // namespace orthobatch::bench
