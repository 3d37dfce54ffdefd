#include "train/evaluate.h"

#include <fmt/core.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>

#include "data/augment.h"

namespace orthobatch::train {
namespace {

/// Makes it that of all ranks; returns the sum of their losses.
double sum_over_ranks(Evaluation& result, double loss_sum, ranks::Ranks& ranks) {
  if (ranks.alone()) return loss_sum;
  std::vector<double> sums = {loss_sum, static_cast<double>(result.images),
                              static_cast<double>(result.wrong)};
  for (const auto& row : result.confusion) sums.insert(sums.end(), row.begin(), row.end());
  ranks.sum(torch::from_blob(sums.data(), {static_cast<int64_t>(sums.size())}, torch::kDouble));
  result.images = static_cast<int64_t>(sums[1]);
  result.wrong = static_cast<int64_t>(sums[2]);
  const double* next = sums.data() + 3;
  for (auto& row : result.confusion)
    for (int64_t& count : row) count = static_cast<int64_t>(*next++);
  return sums[0];
}

}  // namespace

torch::Tensor net_input(const data::ImageSet& images, const data::InputScale& scale, int64_t first,
                        int64_t n) {
  const data::Resampler convert(images.height, images.width, images.channels, scale);
  const torch::Tensor x = torch::empty({n, images.height, images.width, images.channels});
  for (int64_t i = 0; i < n; ++i)
    convert(images.image(first + i), x.data_ptr<float>() + i * images.image_size());
  return x.permute({0, 3, 1, 2});
}

std::optional<Evaluation> evaluate(DigitNet& net, const data::ImageSet& images,
                                   const data::InputScale& scale, const std::atomic<bool>& stop,
                                   ranks::Ranks& ranks) {
  if (net->fc->options.out_features() != images.classes)
    throw std::invalid_argument(fmt::format("classes: expected {} as the net has, found {} in {}",
                                            net->fc->options.out_features(), images.classes,
                                            images.name));
  const torch::NoGradGuard no_grad;
  const bool was_training = net->is_training();
  net->eval();
  Evaluation result;
  result.confusion.assign(images.classes, std::vector<int64_t>(images.classes));
  double loss_sum = 0;
  const int64_t images_at_once = net->images_at_once();
  const int64_t end = ranks.share_of_work().last(images.count());
  for (int64_t start = ranks.share_of_work().first(images.count()); start < end && !stop;
       start += images_at_once) {
    const int64_t n = std::min(images_at_once, end - start);
    torch::Tensor y = torch::empty({n}, torch::kLong);
    for (int64_t i = 0; i < n; ++i) y.data_ptr<int64_t>()[i] = images.labels[start + i];
    const torch::Tensor logits = net(net_input(images, scale, start, n));
    loss_sum += torch::nn::functional::cross_entropy(
                    logits.to(torch::kDouble), y,
                    torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
                    .item<double>();
    const torch::Tensor answers = logits.argmax(1);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t label = images.labels[start + i], answer = answers.data_ptr<int64_t>()[i];
      ++result.confusion[label][answer];
      result.wrong += label != answer;
    }
    result.images += n;
  }
  net->train(was_training);
  loss_sum = sum_over_ranks(result, loss_sum, ranks);
  if (result.images < images.count()) return std::nullopt;
  result.loss = loss_sum / static_cast<double>(result.images);
  return result;
}

}  // namespace orthobatch::train
