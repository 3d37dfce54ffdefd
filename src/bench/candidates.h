#pragma once
// The layers that are measured against each other: torch's BatchNorm2d, ours, and a ZCA written by
// hand.

#include <torch/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/runner.h"
#include "orthobatch/spec.h"

namespace orthobatch::bench {

constexpr const char* composed_row = "composed ZCA";

struct Candidate {
  std::string name;
  std::optional<LayerSpec> spec = {};  ///< of a layer of ours
};

/// torch's BatchNorm2d, which the ratios need, and the named ones: layer specs, or "composed".
/// Without names: every method of the registry, ZCA with a rotation, and the composition. Throws
/// SpecError.
std::vector<Candidate> candidates_of(std::vector<std::string> names = {});

/// A layer or a net.
struct Model {
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  std::vector<torch::Tensor> parameters;
};
template <typename Module>
Model model_of(Module module) {
  return {[module](const torch::Tensor& x) mutable { return module->forward(x); },
          module->parameters()};
}
Model make_layer(const Candidate& candidate, int64_t channels);

/// Times of one forward and backward pass. Gradients are dropped after it.
Sample run_pass(const Model& layer, const torch::Tensor& x, const torch::Tensor& gradient);

}  // namespace orthobatch::bench
