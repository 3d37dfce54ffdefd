#include "base/processor.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

extern "C" {
// OpenBLAS only; absent from other implementations.
char* openblas_get_corename() __attribute__((weak));
char* openblas_get_config() __attribute__((weak));
}

namespace orthobatch::base {
namespace {

/// "OpenBLAS 0.3.21" from "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …"
std::string library_name() {
  if (!openblas_get_config) return "BLAS";
  std::istringstream words(openblas_get_config());
  std::string name, version;
  words >> name >> version;
  return name + " " + version;
}

}  // namespace

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t value = line.find(": ");
    if (line.rfind("model name", 0) == 0 && value != std::string::npos)
      return line.substr(value + 2);
  }
  return "unknown";
}

VectorUnits vector_units() {
  VectorUnits out;
#ifdef ORTHOBATCH_X86
  __builtin_cpu_init();
  out.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  out.avx512 = out.avx2 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq");
#endif
  return out;
}

const char* to_string(LoopSet set) {
  return set == LoopSet::avx512 ? "avx512" : set == LoopSet::avx2 ? "avx2" : "plain";
}

LoopSet loop_set() {
  static const LoopSet chosen = [] {
    const VectorUnits units = vector_units();
    const char* asked = std::getenv("ORTHOBATCH_LOOPS");
    std::string known;
    for (const LoopSet set : {LoopSet::avx512, LoopSet::avx2, LoopSet::plain}) {
      if ((set == LoopSet::avx512 && !units.avx512) || (set == LoopSet::avx2 && !units.avx2))
        continue;
      if (!asked || std::string(asked) == to_string(set)) return set;
      known += std::string(known.empty() ? "" : ", ") + to_string(set);
    }
    throw std::runtime_error(
        "ORTHOBATCH_LOOPS: expected a set of loops that this processor runs (" + known +
        "), found '" + asked + "'");
  }();
  return chosen;
}

std::string better_core(const std::string& name, const VectorUnits& units) {
  if (!units.avx2) return "";
  for (const char* served : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"})
    if (name == served) return "";
  return units.avx512 ? "SkylakeX" : "Haswell";
}

BlasCore blas_core() {
  BlasCore out{library_name(), "", ""};
  if (!openblas_get_corename) return out;
  out.name = openblas_get_corename();
  // A core type that was asked for is as it should be.
  if (!std::getenv("OPENBLAS_CORETYPE")) out.better = better_core(out.name, vector_units());
  return out;
}

std::string to_string(const BlasCore& core) {
  return core.name.empty() ? core.library : core.library + " as " + core.name;
}

}  // namespace orthobatch::base
