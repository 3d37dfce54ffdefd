#include "orthobatch/folded.h"

#include <torch/torch.h>

#include "nn/layer.h"
#include "nn/sequential.h"

namespace orthobatch {

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
  TORCH_CHECK(norm.options.num_features() == found, "expected ", what, " that reads the ",
              norm.options.num_features(), " channels of ", norm.description(), ", got one of ",
              found);
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
  const auto& o = conv->options;
  const std::string mode = nn::padding_mode(o);
  const auto values = [](const torch::ExpandingArray<D>& a) {
    return std::vector<int64_t>(a->begin(), a->end());
  };
  const ops::Convolution convolution{values(o.stride()), values(o.dilation()), nn::paddings<D>(o),
                                     o.groups(), mode == "kZeros"};
  nn::Consumed consumed{{}, conv->weight, conv->bias, convolution.packed()};
  if (const std::vector<int64_t> pad = convolution.beforehand(); !pad.empty()) {
    const char* name = mode == "kReflect"     ? "reflect"
                       : mode == "kReplicate" ? "replicate"
                       : mode == "kCircular"  ? "circular"
                                              : "constant";
    consumed.read = torch::pad(input, pad, name);
  }
  return nn::Access::run(*norm, input, norm->is_training(), consumed);
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
  const int64_t channels = norm->options.num_features(), inputs = linear_->options.in_features();
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
  nn::Consumed consumed{{}, linear->weight, linear->bias, {}};
  if (pooling_ == Pooling::average && input.dim() > 2)
    consumed.read = input.mean(directions(input));
  const torch::Tensor& read = consumed.read.defined() ? consumed.read : input;
  const int64_t inputs = read.numel() / std::max<int64_t>(read.size(0), 1);
  TORCH_CHECK(read.numel() == 0 || linear->options.in_features() == inputs, norm->description(),
              " folded into a Linear: expected ", linear->options.in_features(),
              " values a sample, got input of size ", input.sizes());
  if (scale != 1) consumed.weight = consumed.weight * scale;
  return nn::Access::run(*norm, input, norm_module_->is_training(), consumed);
}

}  // namespace orthobatch
