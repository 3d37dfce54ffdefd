#pragma once
// Numbers that say how well a layer whitens and what it was given.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace orthobatch {

/// Covariance of the channels of an (N, C, …) tensor over all samples, C×C, double.
torch::Tensor covariance(const torch::Tensor& x);

/// Correlation of the channels, C×C, double: 1 on the diagonal, 0 in the row and column of a
/// channel without variance (its diagonal too).
torch::Tensor correlation_matrix(const torch::Tensor& x);

/// max |cov(z) − I| over all pairs of channels: 0 for an output that is white. For a layer whose γ
/// is not 1, divide its output by γ first.
double whiteness_error(const torch::Tensor& z);

/// λ_max/λ_min of a covariance (C×C) or of variances (C); infinite for a singular one.
double condition_number(const torch::Tensor& covariance);

/// exp of the Rényi entropy of order q of the normalized eigenvalues, 1 … C: how many directions
/// the covariance (C×C), or the variances (C), effectively fill. q = 1 is Shannon's entropy.
double effective_rank(const torch::Tensor& covariance, double q = 1);

/// One BatchOrtho layer of a net, as of its last batch in training.
struct LayerSummary {
  std::string name;  ///< path in the net
  std::string spec;
  int64_t channels = 0;
  int64_t samples = 0;          ///< M of the last batch; 0: none yet, and the rest is 0
  double condition_number = 0;  ///< of the conditioned covariance
  double effective_rank = 0;    ///< Shannon
  int64_t floored = 0;
  int64_t null = 0;
  int64_t exchanges = 0;
  int64_t unfolded = 0;  ///< batches so far that a folded layer could not fold
};

/// Every BatchOrtho layer of a net, in the order of the net.
std::vector<LayerSummary> summarize(const torch::nn::Module& net);

/// The same as a table in plain text.
std::string to_string(const std::vector<LayerSummary>& summary);

}  // namespace orthobatch
