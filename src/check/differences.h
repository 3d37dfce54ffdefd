#pragma once
// Central differences of a function of a tensor.

#include <torch/types.h>

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "core/matrix.h"

namespace orthobatch::check {

/// Unit directions in which a tensor is moved: its entries, or random ones where it has more than
/// `limit` of them.
std::vector<torch::Tensor> directions(const torch::Tensor& t, int64_t limit,
                                      at::Generator& generator);

/// f at a point; nullopt where the point lies on another branch.
using Evaluate = std::function<std::optional<double>(const torch::Tensor& point)>;

struct Differences {
  core::Vector values;  ///< directional derivatives; empty where they were not to be had
  double resolution = std::numeric_limits<double>::infinity();
};

/// At the step where neighbouring steps agree best over all directions: shorter ones drown in
/// rounding, longer ones in curvature. Derivatives smaller than `least` count as that large.
Differences central_differences(const torch::Tensor& at, const std::vector<torch::Tensor>& along,
                                const Evaluate& f, double least);

/// The same derivatives from a gradient.
core::Vector project(const torch::Tensor& gradient, const std::vector<torch::Tensor>& along);

/// ‖a − b‖ / ‖b‖, or over `least` where b is smaller than that.
double distance(const core::Vector& a, const core::Vector& b, double least);

}  // namespace orthobatch::check
