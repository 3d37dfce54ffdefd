#include "cli/version.h"

#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#include <fmt/core.h>
#include <onnx/common/version.h>
#include <openssl/opensslv.h>
#include <torch/version.h>
#include <zlib.h>

#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#include "base/processor.h"
#include "core/linalg.h"
#include "kernels/loops.h"
#include "orthobatch/version.h"

namespace orthobatch::cli {
namespace {

std::string compiler() {
#ifdef __clang__
  return fmt::format("clang {}", __clang_version__);
#else
  return fmt::format("g++ {}", __VERSION__);
#endif
}

}  // namespace

std::string version_text() {
  const base::BlasCore core = base::blas_core();
  const std::string blas =
      to_string(core) + (core.better.empty() ? "" : " (at work: " + core.better + ")");
  return fmt::format(
      "orthobatch {}\nlibtorch {}, float products {}, NxN work {}, own loops {}\n"
      "built with {}, {}; CLI11 {}, fmt {}.{}.{}, nlohmann-json {}.{}.{}, ONNX {}, zlib {}, "
      "OpenSSL {}",
      ORTHOBATCH_VERSION, TORCH_VERSION, core::linalg::products_library(), blas,
      kernels::loops_name(), compiler(), ORTHOBATCH_BUILD_TYPE, CLI11_VERSION, FMT_VERSION / 10000,
      FMT_VERSION / 100 % 100, FMT_VERSION % 100, NLOHMANN_JSON_VERSION_MAJOR,
      NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH,
      ONNX_NAMESPACE::LAST_RELEASE_VERSION, ZLIB_VERSION, OPENSSL_VERSION_STR);
}

}  // namespace orthobatch::cli
