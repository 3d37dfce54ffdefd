#pragma once
// What the operators on tensors with values share: the statistics of a batch, what is returned of
// them, and the forward pass's call for the backward pass.

#include <memory>
#include <utility>

#include "ops/operators.h"

namespace orthobatch::ops::values {

/// The places in a report.
enum Counts { samples, floored, null, exchanges, unfolded, counts };

/// Empty where it is not defined: operators return no undefined tensors.
Tensor or_none(const Tensor& t, const Tensor& like);

/// What the forward operators in training return besides their output.
struct Seen {
  Tensor mean, covariance, transform, report, tape;
};
Seen seen_nothing(const Layer& layer, const Tensor& x, bool per_channel, bool transform);
Seen seen(const nn::LayerCall& call, const Call& layer, const Tensor& x,
          const core::Statistics& statistics, bool transform, bool was_unfolded);
Tensors6 with(const Tensor& output, const Seen& seen);

/// The statistics of x, and what is made of them.
std::pair<core::Statistics, nn::LayerCall> on_batch(const Call& layer, const Tensor& x,
                                                    int64_t sample_stride);

/// The call of the forward pass again, from its tape, or from mean and statistic.
std::shared_ptr<const nn::LayerCall> again(const Call& layer, const Tensor& x,
                                           at::TensorList statistics, int64_t sample_stride,
                                           bool transform);

}  // namespace orthobatch::ops::values
