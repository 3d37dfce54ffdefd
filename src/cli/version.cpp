#include "cli/version.h"

#include <fmt/core.h>
#include <torch/version.h>

#include "base/processor.h"
#include "core/linalg.h"
#include "kernels/loops.h"
#include "orthobatch/version.h"

namespace orthobatch::cli {

std::string version_text() {
  const BlasCore core = blas_core();
  const std::string blas =
      to_string(core) + (core.better.empty() ? "" : " (at work: " + core.better + ")");
  return fmt::format(
      "orthobatch {}\nlibtorch {}, float products {}, NxN work {}, own loops {}, g++ {}",
      ORTHOBATCH_VERSION, TORCH_VERSION, core::linalg::products_library(), blas,
      kernels::loops_name(), __VERSION__);
}

}  // namespace orthobatch::cli
