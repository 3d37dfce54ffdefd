#include "experiment/machine.h"

#include <fmt/core.h>
#include <torch/version.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "base/processor.h"
#include "orthobatch/version.h"

namespace orthobatch {
namespace {

/// What follows `key` and its separator in the first line of a file that starts with it.
std::string value_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t start = line.find_first_not_of(" \t:=\"", key.size());
    const size_t end = line.find_last_not_of(" \t\"");
    if (start != std::string::npos && end >= start) return line.substr(start, end - start + 1);
  }
  return "unknown";
}

}  // namespace

nlohmann::ordered_json describe_machine() {
  const double pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  const double bytes = pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return {{"orthobatch", ORTHOBATCH_VERSION},
          {"libtorch", TORCH_VERSION},
          {"compiler", "g++ " __VERSION__},
          {"system", value_in("/etc/os-release", "PRETTY_NAME")},
          {"processor", processor_name()},
          {"blas", to_string(blas_core())},
          {"threads", std::thread::hardware_concurrency()},
          {"memory", fmt::format("{:.0f} GiB", bytes / (1 << 30))}};
}

}  // namespace orthobatch
