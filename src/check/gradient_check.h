#pragma once
// Gradients of a layer against central differences, in double, on data with a chosen spectrum.

#include <torch/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orthobatch/spec.h"

namespace orthobatch::check {

enum class Spectrum {
  distinct,   ///< eigenvalues of Σ spread evenly on a log scale from 4 to 0.05
  close,      ///< the same in pairs, `gap` apart
  equal,      ///< all 1: white data
  deficient,  ///< distinct, then the last channel made a copy of the first
};

struct CheckOptions {
  int64_t channels = 6;
  int64_t samples = 24;
  Spectrum spectrum = Spectrum::distinct;
  double gap = 1e-6;      ///< for Spectrum::close, in units of Σ
  bool at_start = false;  ///< γ = 1, b = 0, S = 0 as a new layer has them; else random
  uint64_t seed = 1;
  double tolerance = 1e-7;  ///< largest relative error of the gradient
  int64_t directions =
      160;  ///< entries are moved one by one up to this many, else along 32 random ones
  std::function<bool()> stop;  ///< asked before each evaluation; true: std::runtime_error
};

/// (samples, channels) data whose covariance has the spectrum, mean about 1.
torch::Tensor data_with_spectrum(const CheckOptions& options);

enum class Verdict {
  ok,           ///< within the tolerance
  off,          ///< outside it, or not finite
  no_gradient,  ///< none exists at this point; what the layer returns is finite
  unresolved,   ///< differences of different steps disagree by more than the tolerance
};

/// The verdict on a gradient that may exist: differences agree among themselves to `resolution`.
Verdict judge(double error, double resolution, double tolerance);

/// One row: the gradient with respect to one tensor.
struct CheckRow {
  std::string of;          ///< "x", "gamma", "b", "S"
  double exact_error = 0;  ///< ‖exact − differences‖ / max(‖differences‖, 1e-3 ‖G‖)
  std::optional<double> paper_error;
  double resolution = 0;  ///< how far differences of neighbouring steps agree
  Verdict verdict = Verdict::ok;
};

struct CheckResult {
  std::vector<CheckRow> rows;
  std::vector<std::string> why_no_gradient;  ///< reasons, where there is none

  bool any(Verdict verdict) const;
  double largest_exact_error() const;
  double largest_paper_error() const;
};

/// The verdicts are on the gradient that the spec has.
CheckResult check_gradient(const LayerSpec& spec, const CheckOptions& options);

}  // namespace orthobatch::check
