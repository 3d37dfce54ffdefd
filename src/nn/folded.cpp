#include "orthobatch/folded.h"

#include <torch/torch.h>

#include <algorithm>

#include "nn/folded_function.h"
#include "nn/layer_run.h"
#include "nn/sequential.h"

namespace orthobatch {
namespace nn {

/// The weights of evaluation, with what they were made from.
struct CachedWeights {
  std::shared_ptr<const core::Fold> fold;
  torch::Tensor weight, bias;
  FoldedWeights folded;

  bool same_inputs(const CachedWeights& other) const {
    return fold == other.fold && same(weight, other.weight) && same(bias, other.bias);
  }

 private:
  static bool same(const torch::Tensor& a, const torch::Tensor& b) {
    if (!a.defined() || !b.defined()) return a.defined() == b.defined();
    return a.options().type_equal(b.options()) && a.sizes() == b.sizes() &&
           a.strides() == b.strides() && a.equal(b);
  }
};

}  // namespace nn

namespace {

using nn::CachedWeights;
using nn::LayerRun;
using nn::Reading;

bool needs_gradient(const torch::Tensor& x, const BatchOrthoLayer& norm, const Reading& reading) {
  if (!torch::GradMode::is_enabled()) return false;
  for (const torch::Tensor& t :
       {x, norm.weight, norm.bias, norm.skew, reading.weight, reading.bias})
    if (t.defined() && t.requires_grad()) return true;
  return false;
}

}  // namespace

FoldedLayer::~FoldedLayer() = default;

torch::Tensor FoldedLayer::run(BatchOrthoLayer& norm, bool training, const torch::Tensor& input) {
  LayerRun run(norm, input, training);
  if (run.empty()) return read(input);
  if (run.x().numel() == 0) {  // it has its part in what other ranks sum up
    torch::Tensor y = read(nn::apply_layer(run.x(), norm.weight, norm.bias, norm.skew, run.call()));
    run.finish();
    return y;
  }
  Reading reading = this->reading(run.x());
  const bool on_batch = run.call().fold->samples > 0;
  torch::Tensor y;
  if (!nn::folds(run.call(), *reading.reader)) {
    y = read(nn::apply_layer(run.x(), norm.weight, norm.bias, norm.skew, run.call()));
    run.finish(/*unfolded=*/true);
    return y;
  }
  const auto call = [&] { return nn::fold_call(run.call(), reading.reader); };
  if (on_batch || needs_gradient(run.x(), norm, reading)) {
    y = nn::apply_folded(run.x(), reading.instead, norm.weight, norm.bias, norm.skew,
                         reading.weight, reading.bias, call());
  } else {
    // Compared by value: no way to change a weight goes unnoticed. Safe for several threads.
    CachedWeights now{run.call().fold, reading.weight.detach(), reading.bias, {}};
    std::shared_ptr<const CachedWeights> cached = std::atomic_load(&cached_);
    if (!cached || !cached->same_inputs(now)) {
      now.folded = nn::folded_weights(call(), reading.weight, reading.bias);
      now.weight = now.weight.clone();
      if (now.bias.defined()) now.bias = now.bias.detach().clone();
      cached = std::make_shared<const CachedWeights>(std::move(now));
      std::atomic_store(&cached_, cached);
    }
    y = nn::folded_output(reading.instead.defined() ? reading.instead : run.x(), cached->folded,
                          *reading.reader);
  }
  run.finish();
  return y;
}

// -------------------------------------------------------------------------------- convolutions

namespace {

/// Registers a child, or puts it in the place of the one of that name.
template <typename Holder>
Holder set_child(torch::nn::Module& parent, const char* name, Holder child) {
  if (parent.named_children().contains(name))
    parent.replace_module(name, child.ptr());
  else
    parent.register_module(name, child.ptr());
  return child;
}

void check_channels(const BatchOrthoLayer& norm, int64_t found, const char* what) {
  TORCH_CHECK(norm.options.channels() == found, "expected ", what, " that reads the ",
              norm.options.channels(), " channels of ", norm.description(), ", got one of ", found);
}

}  // namespace

template <size_t D, typename Norm, typename Conv, typename Derived>
FoldedConvImplBase<D, Norm, Conv, Derived>::FoldedConvImplBase(Norm norm_, Conv conv_) {
  TORCH_CHECK(!norm_.is_empty() && !conv_.is_empty(),
              "expected a norm and a convolution, got none");
  check_channels(*norm_, conv_->options.in_channels(), "a convolution");
  norm = set_child(*this, "norm", norm_);
  conv = set_child(*this, "conv", conv_);
}

template <size_t D, typename Norm, typename Conv, typename Derived>
void FoldedConvImplBase<D, Norm, Conv, Derived>::reset() {
  norm = set_child(*this, "norm", Norm(norm->options));
  conv = set_child(*this, "conv", Conv(nn::conv_options<D>(conv->options)));
}

template <size_t D, typename Norm, typename Conv, typename Derived>
void FoldedConvImplBase<D, Norm, Conv, Derived>::pretty_print(std::ostream& stream) const {
  stream << "orthobatch::FoldedConv" << D << "d";
}

template <size_t D, typename Norm, typename Conv, typename Derived>
torch::Tensor FoldedConvImplBase<D, Norm, Conv, Derived>::forward(const torch::Tensor& input) {
  return run(*norm, norm->is_training(), input);
}

template <size_t D, typename Norm, typename Conv, typename Derived>
torch::Tensor FoldedConvImplBase<D, Norm, Conv, Derived>::read(const torch::Tensor& z) {
  return conv->forward(z);
}

template <size_t D, typename Norm, typename Conv, typename Derived>
nn::Reading FoldedConvImplBase<D, Norm, Conv, Derived>::reading(const torch::Tensor& x) const {
  const auto& o = conv->options;
  const std::string mode = nn::padding_mode(o);
  const auto values = [](const torch::ExpandingArray<D>& a) {
    return std::vector<int64_t>(a->begin(), a->end());
  };
  const nn::Convolution convolution{
      values(o.kernel_size()), values(o.stride()), values(o.dilation()),
      nn::paddings<D>(o),      o.groups(),         mode == "kZeros"};
  nn::Reading out{nn::convolution_reader(convolution, x.sizes(), norm->description()),
                  {},
                  conv->weight,
                  conv->bias};
  if (const std::vector<int64_t> pad = convolution.beforehand(); !pad.empty()) {
    const char* name = mode == "kReflect"     ? "reflect"
                       : mode == "kReplicate" ? "replicate"
                       : mode == "kCircular"  ? "circular"
                                              : "constant";
    out.instead = torch::pad(x, pad, name);
  }
  return out;
}

template class FoldedConvImplBase<1, BatchOrtho1d, torch::nn::Conv1d, FoldedConv1dImpl>;
template class FoldedConvImplBase<2, BatchOrtho2d, torch::nn::Conv2d, FoldedConv2dImpl>;
template class FoldedConvImplBase<3, BatchOrtho3d, torch::nn::Conv3d, FoldedConv3dImpl>;

// -------------------------------------------------------------------------------------- linear

namespace {

/// A new module of the same options.
std::shared_ptr<torch::nn::Module> make_like(const BatchOrthoLayer& norm) {
  if (dynamic_cast<const BatchOrtho1dImpl*>(&norm))
    return std::make_shared<BatchOrtho1dImpl>(norm.options);
  if (dynamic_cast<const BatchOrtho2dImpl*>(&norm))
    return std::make_shared<BatchOrtho2dImpl>(norm.options);
  return std::make_shared<BatchOrtho3dImpl>(norm.options);
}

std::vector<int64_t> directions(const torch::Tensor& x) {
  std::vector<int64_t> out;
  for (int64_t d = 2; d < x.dim(); ++d) out.push_back(d);
  return out;
}

}  // namespace

FoldedLinearImpl::FoldedLinearImpl(std::shared_ptr<torch::nn::Module> norm_,
                                   torch::nn::Linear linear_, Pooling pooling)
    : norm_module_(std::move(norm_)), pooling_(pooling) {
  TORCH_CHECK(norm_module_ && !linear_.is_empty(), "expected a norm and a linear layer, got none");
  norm = std::dynamic_pointer_cast<BatchOrthoLayer>(norm_module_);
  const int64_t channels = norm->options.channels(), inputs = linear_->options.in_features();
  if (pooling == Pooling::average) check_channels(*norm, inputs, "a linear layer");
  TORCH_CHECK(inputs % channels == 0, "expected a linear layer that reads maps of the ", channels,
              " channels of ", norm->description(), ", got one of ", inputs, " inputs");
  register_module("norm", norm_module_);
  linear = register_module("linear", linear_);
}

FoldedLinearImpl::FoldedLinearImpl(BatchOrtho1d norm, torch::nn::Linear linear, Pooling pooling)
    : FoldedLinearImpl(std::shared_ptr<torch::nn::Module>(norm.ptr()), linear, pooling) {}
FoldedLinearImpl::FoldedLinearImpl(BatchOrtho2d norm, torch::nn::Linear linear, Pooling pooling)
    : FoldedLinearImpl(std::shared_ptr<torch::nn::Module>(norm.ptr()), linear, pooling) {}
FoldedLinearImpl::FoldedLinearImpl(BatchOrtho3d norm, torch::nn::Linear linear, Pooling pooling)
    : FoldedLinearImpl(std::shared_ptr<torch::nn::Module>(norm.ptr()), linear, pooling) {}

void FoldedLinearImpl::reset() {
  norm_module_ = make_like(*norm);
  norm = std::dynamic_pointer_cast<BatchOrthoLayer>(norm_module_);
  if (named_children().contains("norm"))
    replace_module("norm", norm_module_);
  else
    register_module("norm", norm_module_);
  linear = set_child(*this, "linear", torch::nn::Linear(linear->options));
}

void FoldedLinearImpl::pretty_print(std::ostream& stream) const {
  stream << "orthobatch::FoldedLinear";
  if (pooling_ == Pooling::average) stream << " pooling=average";
  if (scale != 1) stream << " scale=" << scale;
}

torch::Tensor FoldedLinearImpl::forward(const torch::Tensor& input) {
  return run(*norm, norm_module_->is_training(), input);
}

torch::Tensor FoldedLinearImpl::read(const torch::Tensor& z) {
  torch::Tensor features = z;
  if (pooling_ == Pooling::average && z.dim() > 2) features = z.mean(directions(z));
  features = features.flatten(1);
  if (scale == 1) return linear->forward(features);
  const torch::Tensor product = torch::linear(features, linear->weight * scale);
  return linear->bias.defined() ? product + linear->bias : product;
}

nn::Reading FoldedLinearImpl::reading(const torch::Tensor& x) const {
  nn::Reading out{std::make_shared<nn::LinearReader>(), {}, linear->weight, linear->bias};
  if (pooling_ == Pooling::average && x.dim() > 2) out.instead = x.mean(directions(x));
  const torch::Tensor& read = out.instead.defined() ? out.instead : x;
  const int64_t inputs = read.numel() / read.size(0);
  TORCH_CHECK(linear->options.in_features() == inputs, norm->description(),
              " folded into a Linear: expected ", linear->options.in_features(),
              " values a sample, got input of size ", x.sizes());
  std::vector<int64_t> sizes = read.sizes().vec();
  sizes[0] = linear->options.out_features();
  if (scale != 1) out.weight = out.weight * scale;
  out.weight = out.weight.view(sizes);
  return out;
}

}  // namespace orthobatch
