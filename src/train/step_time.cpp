#include "train/step_time.h"

#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>

#include "train/net.h"

namespace orthobatch::train {

double step_seconds(const run::TrainConfig& config, const data::ImageShape& image, int64_t classes,
                    int64_t images) {
  using Clock = std::chrono::steady_clock;
  DigitNet net(image, config.net, classes);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(1e-6));
  const torch::Tensor x = torch::randn({images, image.channels, image.height, image.width})
                              .contiguous(torch::MemoryFormat::ChannelsLast);
  const torch::Tensor y = torch::zeros({images}, torch::kLong);
  double least = 0;
  for (int step = 0; step < 4; ++step) {
    const auto start = Clock::now();
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(net->forward(x), y).backward();
    optimizer.step();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    if (step > 0) least = step == 1 ? took : std::min(least, took);
  }
  return least;
}

}  // namespace orthobatch::train
