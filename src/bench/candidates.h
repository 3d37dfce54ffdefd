#pragma once
// What is measured against each other: torch's BatchNorm2d, our layers, and a ZCA written by hand.

#include <torch/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "orthobatch/spec.h"

namespace orthobatch::bench {

struct Candidate {
  enum class Kind { torch_bn, layer, composed };

  Kind kind;
  std::optional<LayerSpec> spec;  ///< of a layer of ours

  std::string name() const;
  /// Whether it whitens with dense N×N products over the samples.
  bool has_products() const;
};

/// torch's BatchNorm2d, every method of the registry with its defaults, ZCA with a rotation, and
/// the composition.
std::vector<Candidate> all_candidates();

/// BatchNorm2d, which the ratios need, and the named ones: layer specs, or "composed". Throws
/// SpecError.
std::vector<Candidate> parse_candidates(const std::vector<std::string>& names);

/// A candidate with parameters for so many channels.
struct Layer {
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  std::vector<torch::Tensor> parameters;
};
Layer make_layer(const Candidate& candidate, int64_t channels);

struct PassTimes {
  Times forward, backward, both;
};

/// One forward and backward pass; `times` may be null. Gradients are dropped after it.
void run_pass(const Layer& layer, torch::Tensor& x, const torch::Tensor& gradient,
              PassTimes* times);

}  // namespace orthobatch::bench
