#pragma once
// The operators as functions: what is registered for tensors with values (kernels.cpp) and for
// those without (meta.cpp), and their types, through which autograd.cpp calls them again.

#include <ATen/core/Tensor.h>

#include <array>
#include <tuple>
#include <vector>

#include "ops/layers.h"

namespace orthobatch::ops {

using c10::string_view;
using Tensors4 = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Tensors6 = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Tensors7 = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

/// Z, and of the batch: mean, conditioned covariance, T where it is asked for, counts
/// (samples, floored, null, exchanges, unfolded), and the tape for the backward pass.
using Train = Tensors6(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& skew, string_view spec, int64_t channels, int64_t dims,
                       int64_t sample_stride, bool transform, string_view name);

/// A batch of training as a module takes it, in one call: `train`, then `track_` where there are
/// running averages. Z, conditioned covariance and counts.
using Step = std::tuple<Tensor, Tensor, Tensor>(
    const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
    const OptionalTensor& skew, const OptionalTensor& mean, const OptionalTensor& statistic,
    const OptionalTensor& count, c10::optional<double> momentum, string_view spec, int64_t channels,
    int64_t dims, int64_t sample_stride, bool transform, bool unbiased, string_view name);

/// Z from running statistics.
using Evaluate = Tensor(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                        const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                        string_view spec, int64_t channels, int64_t dims, bool transform,
                        string_view name);

/// ∇x, ∇weight, ∇bias, ∇skew, empty where they are not wanted. `statistics` are a tape, or mean and
/// statistic.
using Backward = Tensors4(const Tensor& grad, const Tensor& x, const OptionalTensor& weight,
                          const OptionalTensor& bias, const OptionalTensor& skew,
                          at::TensorList statistics, string_view spec, int64_t channels,
                          int64_t dims, int64_t sample_stride, bool transform, string_view name,
                          std::array<bool, 4> wanted);

// The same in parts, for who sums over processes himself: statistics of this process's samples,
// merged with others' in their order, and what the backward pass sums.
using LocalStatistics = Tensor(const Tensor& x, string_view spec, int64_t channels, int64_t dims,
                               int64_t sample_stride, string_view name);
using MergeStatistics = Tensor(at::TensorList parts, string_view spec, int64_t channels);
using TrainOn = Tensors6(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& skew, const Tensor& statistics, string_view spec,
                         int64_t channels, int64_t dims, int64_t sample_stride, bool transform,
                         string_view name);
using LocalSums = Tensor(const Tensor& grad, const Tensor& x, const OptionalTensor& weight,
                         const OptionalTensor& bias, const OptionalTensor& skew, const Tensor& tape,
                         string_view spec, int64_t channels, int64_t dims, int64_t sample_stride,
                         string_view name);
/// From the sums of this process, for the parameters, and of all, for the input.
using BackwardOn = Tensors4(const Tensor& grad, const Tensor& x, const OptionalTensor& weight,
                            const OptionalTensor& bias, const OptionalTensor& skew,
                            const Tensor& tape, const Tensor& own, const Tensor& all,
                            string_view spec, int64_t channels, int64_t dims, int64_t sample_stride,
                            string_view name, std::array<bool, 4> wanted);

/// The output of what reads Z: a convolution, or, with groups = 0, a linear layer over whole maps.
/// `read` is what it reads in place of x where that is padded or pooled first; padding is by
/// direction, before and behind.
using FoldedTrain = Tensors6(const Tensor& x, const OptionalTensor& read,
                             const OptionalTensor& weight, const OptionalTensor& bias,
                             const OptionalTensor& skew, const Tensor& reader_weight,
                             const OptionalTensor& reader_bias, at::IntArrayRef stride,
                             at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                             bool zeros, string_view spec, int64_t channels, int64_t dims,
                             int64_t sample_stride, bool transform, string_view name);

using FoldedEvaluate = Tensor(const Tensor& x, const OptionalTensor& read,
                              const OptionalTensor& weight, const OptionalTensor& bias,
                              const OptionalTensor& skew, const Tensor& reader_weight,
                              const OptionalTensor& reader_bias, at::IntArrayRef stride,
                              at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                              bool zeros, const Tensor& mean, const Tensor& statistic,
                              string_view spec, int64_t channels, int64_t dims, bool transform,
                              string_view name);

using FoldedBackward = Tensors7(const Tensor& grad, const Tensor& x, const OptionalTensor& read,
                                const OptionalTensor& weight, const OptionalTensor& bias,
                                const OptionalTensor& skew, const Tensor& reader_weight,
                                const OptionalTensor& reader_bias, at::TensorList statistics,
                                at::IntArrayRef stride, at::IntArrayRef padding,
                                at::IntArrayRef dilation, int64_t groups, bool zeros,
                                string_view spec, int64_t channels, int64_t dims,
                                int64_t sample_stride, bool transform, string_view name,
                                std::array<bool, 7> wanted);

/// The running averages take a batch, in place.
using Track = void(Tensor mean, Tensor statistic, Tensor count, const Tensor& batch_mean,
                   const Tensor& batch_statistic, const Tensor& report,
                   c10::optional<double> momentum, bool unbiased);

/// What a batch's covariance becomes in the running average: conditioned, and its T.
using Condition = std::tuple<Tensor, Tensor>(const Tensor& covariance, const OptionalTensor& weight,
                                             string_view spec);

/// P and q of Z = P X + q from running statistics, double.
using AverageMap = std::tuple<Tensor, Tensor>(const OptionalTensor& weight,
                                              const OptionalTensor& bias,
                                              const OptionalTensor& skew, const Tensor& mean,
                                              const Tensor& statistic, string_view spec,
                                              bool transform);

}  // namespace orthobatch::ops
