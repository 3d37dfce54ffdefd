#pragma once
// The operators as functions: for tensors with values (kernels.cpp), for those without (meta.cpp), and
// their types, through which autograd.cpp and the modules call them.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <tuple>
#include <vector>

#include "ops/layer.h"

namespace orthobatch::ops {

using c10::string_view;
using Tensors2 = std::tuple<Tensor, Tensor>;
using Tensors7 = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Tensors3 = std::tuple<Tensor, Tensor, Tensor>;
using Flags7 = std::array<bool, 7>;

/// Z, or the output of what consumes it, and the batch's tape. A consumer is a convolution
/// (Convolution::packed) or, with an empty list, a linear layer over whole maps; `read` is what it
/// reads in place of x where that is padded or pooled first.
using Train = Tensors2(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& skew, string_view layer, const OptionalTensor& read,
                       const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
                       at::IntArrayRef consumer);

/// The same from running averages; `last` is the statistic of a smaller last group.
using Evaluate = Tensor(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                        const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                        const OptionalTensor& last, string_view layer, const OptionalTensor& read,
                        const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
                        at::IntArrayRef consumer);

/// The gradients to x, weight, bias, skew, read, consumer_weight and consumer_bias, empty where they
/// are not wanted. `statistics` are a tape, or mean, statistic and, where there is one, last.
using Backward = Tensors7(const Tensor& grad, const Tensor& x, const OptionalTensor& weight,
                          const OptionalTensor& bias, const OptionalTensor& skew,
                          at::TensorList statistics, string_view layer, const OptionalTensor& read,
                          const OptionalTensor& consumer_weight,
                          const OptionalTensor& consumer_bias, at::IntArrayRef consumer,
                          Flags7 wanted);

/// The running averages take a batch, in place.
using Track = void(const Tensor& mean, const Tensor& statistic, const OptionalTensor& last,
                   const Tensor& count, const OptionalTensor& weight, const Tensor& tape,
                   c10::optional<double> momentum, string_view layer);

/// A batch of training as a module takes it: `train`, then `track_` where there are averages.
using Step = Tensors2(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& skew, const OptionalTensor& mean,
                      const OptionalTensor& statistic, const OptionalTensor& last,
                      const OptionalTensor& count, c10::optional<double> momentum,
                      string_view layer, const OptionalTensor& read,
                      const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
                      at::IntArrayRef consumer);

/// The covariance of a tape as the method conditioned it, in the sizes of a running one.
using Conditioned = Tensors2(const Tensor& tape, const OptionalTensor& weight, string_view layer);

/// What running averages start as where only variances are known: statistic and last.
using Initial = Tensors2(const Tensor& variance, const OptionalTensor& weight, string_view layer);

// ------------------------------------------------------------------------ functions without state
/// T of covariances (…, C, C), and a tape that holds what the way back needs.
using WhiteningMatrix = Tensors2(const Tensor& covariance, string_view spec);
using WhiteningMatrixBackward = Tensor(const Tensor& grad, const Tensor& covariance,
                                       const Tensor& tape, string_view spec);
/// T (x − μ) of (N, C, …), and T and μ, which are empty where they are not asked for.
using Whiten = Tensors3(const Tensor& x, string_view spec, bool return_map);

// ------------------------------------------------------------------------ folding for inference
// A layer in evaluation as a list of tensors, double: P, center, offset of Z = P (X − center) + offset,
// and (block of P, whether P X + q is as exact).
using AverageMap = std::vector<Tensor>(const OptionalTensor& weight, const OptionalTensor& bias,
                                       const OptionalTensor& skew, const Tensor& mean,
                                       const Tensor& statistic, const OptionalTensor& last,
                                       string_view layer);
/// Weight and bias of a convolution or linear layer with the map behind it: map(module(x)). Nothing
/// where the map mixes what the module keeps apart.
using FoldBehind = std::vector<Tensor>(at::TensorList map, const Tensor& weight,
                                       const OptionalTensor& bias, int64_t groups, bool transposed);
/// With the map before it: module(map(x)). Nothing where zeros stand around the map's output, too.
using FoldBefore = std::vector<Tensor>(at::TensorList map, const Tensor& weight,
                                       const OptionalTensor& bias, int64_t groups, bool pads_zeros);
/// The map by itself as weight (C, C/groups) and bias of a 1×1 convolution; as those of two, the mean
/// taken off first, where P X + q would lose digits.
using FoldAlone = std::vector<Tensor>(at::TensorList map);

/// The operator of that name.
template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// Those that modules call; naming them brings their registration into a program.
const c10::TypedOperatorHandle<Step>& step_operator();
const c10::TypedOperatorHandle<Evaluate>& evaluate_operator();

namespace values {
Train train;
Evaluate evaluate;
Backward backward;
Track track;
Conditioned conditioned;
Initial initial;
WhiteningMatrix whitening_matrix;
WhiteningMatrixBackward whitening_matrix_backward;
}  // namespace values
namespace inference {
AverageMap average_map;
FoldBehind fold_behind;
FoldBefore fold_before;
FoldAlone fold_alone;
}  // namespace inference
namespace meta {
Train train;
Evaluate evaluate;
Backward backward;
Track track;
WhiteningMatrix whitening_matrix;
WhiteningMatrixBackward whitening_matrix_backward;
}  // namespace meta
namespace autograd {
Train train;
Evaluate evaluate;
Backward backward;
Track track;
Step step;
Whiten whiten;
WhiteningMatrix whitening_matrix;
WhiteningMatrixBackward whitening_matrix_backward;
void autocast(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuse_vmap(const c10::OperatorHandle& op, torch::jit::Stack* stack);
}  // namespace autograd

}  // namespace orthobatch::ops
