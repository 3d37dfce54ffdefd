#pragma once
// A BatchOrtho layer and the convolution or linear layer that reads its output, as one module that
// computes the same for less: the whitening goes into the weights, in training too, and the
// layer's output is never made.
//
//     FoldedConv2d both(norm, conv);           // conv(norm(x)); children `norm` and `conv`
//     FoldedLinear head(norm, linear);         // linear(norm(x).flatten(1))
//     net = fold_training(net);                // every such pair of a Sequential
//     auto plain = fold(net);                  // for inference: none of our layers left
//
// In training: moments of X, factorization, one convolution with the weights w P. Backward: the
// convolution's own pass, then N×N algebra, then Q X + r on top of ∇X. Zero padding is exact: what
// q adds outside the image is taken off again along the border. In evaluation the folded weights
// are kept until something they depend on changes.
//
// Where P X + q would lose digits (channels that are nearly linear combinations of others, means
// large against the deviation), or where a convolution's groups mix what P does not keep apart, a
// batch goes through norm and then conv; `norm->last_batch().unfolded` counts those of training.
// Output, running statistics and gradients are those of the pair up to rounding.

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <ostream>

#include "orthobatch/modules.h"

namespace orthobatch {

template <size_t D, typename Norm, typename Conv, typename Derived>
class ORTHOBATCH_API FoldedConvImplBase : public torch::nn::Cloneable<Derived> {
 public:
  /// Of two modules with as many channels between them; they stay what they are and may be used by
  /// themselves.
  FoldedConvImplBase(Norm norm, Conv conv);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  /// conv(norm(x)), in training where the norm is.
  torch::Tensor forward(const torch::Tensor& input);

  Norm norm{nullptr};
  Conv conv{nullptr};
};

class ORTHOBATCH_API FoldedConv1dImpl
    : public FoldedConvImplBase<1, BatchOrtho1d, torch::nn::Conv1d, FoldedConv1dImpl> {
 public:
  using FoldedConvImplBase::FoldedConvImplBase;
};
class ORTHOBATCH_API FoldedConv2dImpl
    : public FoldedConvImplBase<2, BatchOrtho2d, torch::nn::Conv2d, FoldedConv2dImpl> {
 public:
  using FoldedConvImplBase::FoldedConvImplBase;
};
class ORTHOBATCH_API FoldedConv3dImpl
    : public FoldedConvImplBase<3, BatchOrtho3d, torch::nn::Conv3d, FoldedConv3dImpl> {
 public:
  using FoldedConvImplBase::FoldedConvImplBase;
};
TORCH_MODULE(FoldedConv1d);
TORCH_MODULE(FoldedConv2d);
TORCH_MODULE(FoldedConv3d);

/// What stands between the norm and the linear layer.
enum class Pooling {
  none,     ///< linear(norm(x).flatten(1)): a weight for each channel and place
  average,  ///< linear(norm(x) averaged over all places): a weight for each channel
};

class ORTHOBATCH_API FoldedLinearImpl : public torch::nn::Cloneable<FoldedLinearImpl> {
 public:
  FoldedLinearImpl(BatchOrtho1d norm, torch::nn::Linear linear, Pooling pooling = Pooling::none);
  FoldedLinearImpl(BatchOrtho2d norm, torch::nn::Linear linear, Pooling pooling = Pooling::none);
  FoldedLinearImpl(BatchOrtho3d norm, torch::nn::Linear linear, Pooling pooling = Pooling::none);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  /// In training where the norm is.
  torch::Tensor forward(const torch::Tensor& input);

  /// The product with the weight, not the bias, is multiplied by this: large maps give large
  /// logits. Default: 1. May be changed at any time.
  double scale = 1;

  Pooling pooling() const { return pooling_; }

  std::shared_ptr<BatchOrthoLayer> norm;
  torch::nn::Linear linear{nullptr};

 private:
  FoldedLinearImpl(std::shared_ptr<torch::nn::Module> norm, torch::nn::Linear linear,
                   Pooling pooling);

  std::shared_ptr<torch::nn::Module> norm_module_;
  Pooling pooling_;
};
TORCH_MODULE(FoldedLinear);

/// The net with every BatchOrtho layer that is followed by a convolution, by Flatten and Linear, by
/// an average over all places, Flatten and Linear, or (BatchOrtho1d) by Linear joined with it. The
/// modules are the net's own, not copies. A pair has the name of the convolution or linear layer, as
/// in Python: `2.weight` becomes `3.norm.weight` and `3.weight` becomes `3.conv.weight`.
ORTHOBATCH_API torch::nn::Sequential fold_training(torch::nn::Sequential net);

/// The pairs of fold_training as the modules they were made of; a norm is named after its pair,
/// `3_norm`, since what it was called is not known.
ORTHOBATCH_API torch::nn::Sequential unfold_training(const torch::nn::Sequential& net);

/// A X + b over the channels of (N, C) or (N, C, L): what is left of a BatchOrtho1d that no
/// neighbour takes, as torch has no module that takes both.
class ORTHOBATCH_API PointwiseAffineImpl : public torch::nn::Cloneable<PointwiseAffineImpl> {
 public:
  explicit PointwiseAffineImpl(int64_t channels);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);

  torch::Tensor weight;  ///< A, C×C
  torch::Tensor bias;    ///< b, C

 private:
  int64_t channels_;
};
TORCH_MODULE(PointwiseAffine);

/// A copy for inference without our layers, in evaluation mode: each is in the weights of the
/// convolution or linear layer before or behind it, or a 1×1 convolution where it cannot be (zeros
/// stand around it, something else than those reads it): in groups, where groups of channels are
/// whitened alone. Where P X + q would lose digits, the mean is taken off first, by a convolution
/// of its own.
///
/// Takes apart what fold_training joined, and Sequentials inside. Throws where a layer has no
/// running statistics, or sits in a module whose way through it cannot be seen. Names stay; a layer
/// that is gone leaves a gap.
ORTHOBATCH_API torch::nn::Sequential fold(const torch::nn::Sequential& net);

}  // namespace orthobatch
