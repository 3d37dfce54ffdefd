#pragma once

#include <torch/arg.h>
#include <torch/types.h>

#include "orthobatch/process_group.h"
#include "orthobatch/spec.h"

namespace orthobatch {

/// What evaluation uses in place of the batch's statistics.
enum class RunningAverage {
  covariance,  ///< the average of μ and Σ; T is computed from them once
  transform,   ///< the average of μ and T itself
};

/// Options of BatchOrtho1d, BatchOrtho2d and BatchOrtho3d.
///
///     BatchOrtho2d layer(BatchOrthoOptions(64).spec("ZCAE(1e-5)").momentum(0.05));
struct BatchOrthoOptions {
  /// `num_features` is C of an (N, C, …) input, at least 1.
  BatchOrthoOptions(
      int64_t num_features,  // NOLINT(google-explicit-constructor): as torch's options
      LayerSpec spec = default_spec)
      : num_features_(num_features), spec_(std::move(spec)) {}

  /// C of an (N, C, …) input. Changing it after construction has no effect.
  TORCH_ARG(int64_t, num_features);

  /// The layer, as parsed from text. Default: `default_spec`. Changing it later has no effect.
  TORCH_ARG(LayerSpec, spec);

  /// The weight of a batch in the running average, 0 … 1, as in torch's BatchNorm; the paper's α is
  /// 1 − momentum. `nullopt` averages all batches equally. Default: 0.1. May be changed at any
  /// time; it is checked when it is used.
  TORCH_ARG(c10::optional<double>, momentum) = 0.1;

  /// Whether γ (`weight`) and b (`bias`) are learned. A rotation W is learned whenever the spec has
  /// one. Default: true. Changing it later has no effect.
  TORCH_ARG(bool, affine) = true;

  /// Whether running statistics are kept; without them evaluation uses the batch's own. Default:
  /// true. Changing it later has no effect.
  TORCH_ARG(bool, track_running_stats) = true;

  /// What is averaged. Default: the covariance. Changing it later has no effect.
  TORCH_ARG(RunningAverage, running_average) = RunningAverage::covariance;

  /// In training, the statistics are those of every `sample_stride`-th place in each direction of
  /// an (N, C, …) input, and the gradient is exact for that; an (N, C) input is seen whole. With
  /// fewer places than channels in a group, data that were not seen come out up to 1/√ε large: said
  /// once.
  /// 1 or more. Default: 1, every place. May be changed at any time; it is checked when it is used.
  TORCH_ARG(int64_t, sample_stride) = 1;

  /// In training, the statistics are those of the batches of all processes together, and the gradient
  /// is that of the sum of their losses; a process's batch may be empty. Those of γ, b and S are
  /// its own, to be averaged or added with the net's others. Default: none. May be changed at
  /// any time, in all processes alike.
  TORCH_ARG(ProcessGroup, process_group);

  /// How messages call this layer; see `name_layers`. Default: empty. May be changed at any time.
  TORCH_ARG(std::string, name) = "";
};

}  // namespace orthobatch
