#include "bench/step.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>

#include "bench/contestants.h"
#include "bench/tensor_memory.h"
#include "data/images.h"

namespace orthobatch::bench {
namespace {

/// Images as a camera sees them: near places alike, colours alike, all of them between 0 and 1.
torch::Tensor smooth_images(int64_t batch, int64_t side, int64_t channels, at::Generator& g) {
  const torch::Tensor light = torch::rand({batch, 1, side / 4, side / 4}, g),
                      colour = torch::rand({batch, channels, side / 4, side / 4}, g),
                      noise = torch::rand({batch, channels, side, side}, g);
  const auto enlarged = [&](const torch::Tensor& x) {
    return torch::upsample_bilinear2d(x, {side, side}, /*align_corners=*/false);
  };
  const torch::Tensor x = 0.6 * enlarged(light) + 0.3 * enlarged(colour) + 0.1 * noise;
  // By its strides: those of one channel would else count as contiguous, and what follows with
  // them.
  return x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
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
  const int64_t channels = data == "mnist" ? 1 : 3, side = data == "mnist" ? 28 : 32;
  at::set_num_threads(session.threads);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{1});
  const torch::Tensor x = smooth_images(batch, side, channels, generator);
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
