#include "cli/restart.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/processor.h"
#include "cli/options.h"

namespace orthobatch::cli {
namespace {

// Tells the program that starts what the one before it was taken for.
constexpr const char* taken_for = "ORTHOBATCH_TAKEN_FOR";

}  // namespace

void restart_on_right_core(char** argv) {
  const base::BlasCore core = base::blas_core();
  if (core.better.empty()) return;
  ::setenv("OPENBLAS_CORETYPE", core.better.c_str(), 1);
  ::setenv(taken_for, core.name.c_str(), 1);
  std::fflush(nullptr);
  ::execv("/proc/self/exe", argv);
  const int error = errno;
  ::unsetenv(taken_for);
  complain(
      fmt::format("warning: {} takes this processor for a {} and is slow; could not restart with "
                  "OPENBLAS_CORETYPE={}: {}. Set it by hand.",
                  core.library, core.name, core.better, std::strerror(error)));
}

std::string restart_note() {
  const char* was = std::getenv(taken_for);
  if (!was) return "";
  const base::BlasCore core = base::blas_core();
  const std::string note =
      fmt::format("{} takes this processor for a {}: restarted with OPENBLAS_CORETYPE={}",
                  core.library, was, core.name);
  ::unsetenv(taken_for);
  return note;
}

}  // namespace orthobatch::cli
