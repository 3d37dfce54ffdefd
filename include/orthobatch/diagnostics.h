#pragma once
// Numbers that say how well a layer whitens and what it was given.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "orthobatch/export.h"

namespace orthobatch {

/// Covariance of the channels of an (N, C, …) tensor over all samples, C×C, double.
ORTHOBATCH_API torch::Tensor covariance(const torch::Tensor& x);

/// Correlation of the channels, C×C, double: 1 on the diagonal, 0 in the row and column of a
/// channel without variance (its diagonal too).
ORTHOBATCH_API torch::Tensor correlation_matrix(const torch::Tensor& x);

/// max |cov(z) − I| over all pairs of channels: 0 for an output that is white. For a layer whose γ
/// is not 1, divide its output by γ first.
ORTHOBATCH_API double whiteness_error(const torch::Tensor& z);

// A covariance below is C×C, variances (C), or blocks (groups, g, g) with, where the last is smaller,
// that one as `last` (r×r).

/// λ_max/λ_min of a covariance; infinite for a singular one.
ORTHOBATCH_API double condition_number(const torch::Tensor& covariance,
                                       const torch::Tensor& last = {});

/// exp of the Rényi entropy of order q of the normalized eigenvalues, 1 … C: how many directions
/// the covariance effectively fills. q = 1 is Shannon's entropy.
ORTHOBATCH_API double effective_rank(const torch::Tensor& covariance, double q = 1,
                                     const torch::Tensor& last = {});

/// One BatchOrtho layer of a net, as of its last batch in training.
struct LayerSummary {
  std::string name;  ///< path in the net
  std::string spec;
  int64_t num_features = 0;
  int64_t samples = 0;          ///< M of the last batch; 0: none yet, and the rest is 0
  double condition_number = 0;  ///< of the conditioned covariance
  double effective_rank = 0;    ///< Shannon
  int64_t floored = 0;
  int64_t null = 0;   ///< directions without variance
  int64_t empty = 0;  ///< those with less than ε; a table shows both in one column
  int64_t exchanges = 0;
  int64_t unfolded = 0;  ///< batches so far that a folded layer could not fold
};

/// Every BatchOrtho layer of a net, in the order of the net.
ORTHOBATCH_API std::vector<LayerSummary> summary(const torch::nn::Module& net);

/// The same as a table in plain text.
ORTHOBATCH_API std::string to_string(const std::vector<LayerSummary>& summary);

}  // namespace orthobatch
