#pragma once
// The elements of a Sequential, and which of torch's modules they are.

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orthobatch/folded.h"

namespace orthobatch::nn {

struct Element {
  std::string name;
  torch::nn::AnyModule module;
};
std::vector<Element> elements_of(const torch::nn::Sequential& net);

/// Null where it is of another type.
template <typename Module>
std::shared_ptr<Module> as(const torch::nn::AnyModule& module) {
  return std::dynamic_pointer_cast<Module>(module.ptr());
}

/// Everything but the samples in one direction.
bool flattens_all(const torch::nn::AnyModule& module);
/// Over all places, to one.
bool averages_all(const torch::nn::AnyModule& module);

/// The modules of D directions.
template <size_t D>
struct Modules;
template <>
struct Modules<1> {
  using Norm = BatchOrtho1d;
  using BatchNorm = torch::nn::BatchNorm1d;
  using Conv = torch::nn::Conv1d;
  using Folded = FoldedConv1d;
};
template <>
struct Modules<2> {
  using Norm = BatchOrtho2d;
  using BatchNorm = torch::nn::BatchNorm2d;
  using Conv = torch::nn::Conv2d;
  using Folded = FoldedConv2d;
};
template <>
struct Modules<3> {
  using Norm = BatchOrtho3d;
  using BatchNorm = torch::nn::BatchNorm3d;
  using Conv = torch::nn::Conv3d;
  using Folded = FoldedConv3d;
};

/// What reads a norm that stands at `at`: the linear layer and how many elements on it is.
struct LinearBehind {
  std::shared_ptr<torch::nn::LinearImpl> linear;  // null: none that a layer can be folded into
  size_t distance = 0;
  bool averages = false;  // over all places before it
};
/// Through Flatten, with an average over all places before it or without. Linear alone reads the
/// last direction, which is that of the channels only behind a BatchOrtho1d over (N, C): what it
/// is taken for where its inputs are as many.
LinearBehind linear_behind(const std::vector<Element>& all, size_t at, const BatchOrthoLayer& norm);

/// The options to make such a convolution anew.
template <size_t D, typename Options>
torch::nn::ConvOptions<D> conv_options(const Options& o) {
  torch::nn::ConvOptions<D> options(o.in_channels(), o.out_channels(), o.kernel_size());
  options.stride(o.stride()).dilation(o.dilation()).groups(o.groups()).bias(o.bias());
  options.padding(o.padding()).padding_mode(o.padding_mode());
  return options;
}

/// The places before and behind each direction, as the convolution's options ask for them.
template <size_t D, typename Options>
std::vector<std::pair<int64_t, int64_t>> paddings(const Options& options) {
  std::vector<std::pair<int64_t, int64_t>> out(D);
  struct Visitor {
    std::vector<std::pair<int64_t, int64_t>>& out;
    const Options& options;
    void operator()(torch::enumtype::kValid) const {}
    void operator()(torch::enumtype::kSame) const {
      for (size_t d = 0; d < D; ++d) {
        const int64_t total = (*options.dilation())[d] * ((*options.kernel_size())[d] - 1);
        out[d] = {total / 2, total - total / 2};
      }
    }
    void operator()(const torch::ExpandingArray<D>& both) const {
      for (size_t d = 0; d < D; ++d) out[d] = {(*both)[d], (*both)[d]};
    }
  };
  visit(Visitor{out, options}, options.padding());  // c10's or std's, by the version of torch
  return out;
}

/// What stands in those places: "kZeros", …
template <typename Options>
std::string padding_mode(const Options& options) {
  return torch::enumtype::get_enum_name(options.padding_mode());
}

}  // namespace orthobatch::nn
