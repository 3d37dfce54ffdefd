#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <vector>

#include "data/images.h"
#include "orthobatch/folded.h"
#include "orthobatch/modules.h"
#include "run/config.h"

namespace orthobatch::train {

/// C(fov, stride, in, out): convolution, ReLU, a BatchOrtho layer.
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(int64_t in_channels, int64_t padding, const run::BlockConfig& config,
            int64_t sample_stride);
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Conv2d conv{nullptr};
  BatchOrtho2d norm{nullptr};
};
TORCH_MODULE(Block);

/// The paper's net: blocks, the head, FC. Its output are the logits, one a class. Weights are
/// channels last, as its input should be. Layers are folded into what reads them, where the config
/// says so and they are no BN: parameters and their names are the same either way.
class DigitNetImpl : public torch::nn::Module {
 public:
  DigitNetImpl(const data::ImageShape& image, const run::NetConfig& config,
               int64_t classes = data::digit_classes);
  torch::Tensor forward(const torch::Tensor& x);

  /// Its own modules in a row; FC is a copy, with the scale of a flat head in its weights.
  torch::nn::Sequential as_sequential() const;

  /// α of every layer's running average.
  void set_alpha(double alpha);

  /// How many images to give it at once, where they are many: 500, or fewer that take 256 MiB.
  int64_t images_at_once() const;

  std::vector<Block> blocks;
  torch::nn::Linear fc{nullptr};

 private:
  /// The output of the last convolution, after ReLU and before its layer.
  torch::Tensor before_last_layer(torch::Tensor x);
  torch::Tensor read_by_fc(const torch::Tensor& z);

  run::Head head_;
  double flat_scale_;
  int64_t largest_map_;  ///< numbers that a block, or an image, has at most
  // Over the modules above, and not among this net's own: null where a layer is not folded.
  std::vector<FoldedConv2d> folded_;  // layer k into the convolution of block k + 1
  FoldedLinear folded_fc_{nullptr};
};
TORCH_MODULE(DigitNet);

/// He's initialisation of the convolutions, biases 0, from torch's default generator. What FC gets
/// does not have the deviation that He's rule is meant for: its weights are scaled so that the
/// logits of `first_batch` deviate by `deviation`.
void initialize(DigitNet& net, const torch::Tensor& first_batch, double deviation);

/// Replaces the running statistics of all layers by the equal average over batches of `next`, seen
/// with the weights the net has now.
void refresh_statistics(DigitNet& net, int64_t batches, const std::function<torch::Tensor()>& next);

}  // namespace orthobatch::train
