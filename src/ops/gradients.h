#pragma once
// The way back: from the gradient of Z, or of what a consumer makes of it, to those of all inputs.

#include <array>

#include "ops/tape.h"

namespace orthobatch::ops {

/// In the order of Inputs.
using Wanted = std::array<bool, 7>;

/// The gradients that are wanted, from that of the output.
Inputs gradients(const Tensor& grad, const Call& call, const Made& made, const Wanted& wanted);

}  // namespace orthobatch::ops
