#include <cstdlib>
#include <stdexcept>
#include <string>

#include "base/processor.h"
#include "kernels/loops_sets.h"

ORTHOBATCH_DECLARE_LOOPS(plain)
#ifdef ORTHOBATCH_X86
ORTHOBATCH_DECLARE_LOOPS(avx2)
ORTHOBATCH_DECLARE_LOOPS(avx512)
#endif

namespace orthobatch::kernels {
namespace {

struct Set {
  const char* name;
  bool runs_here;
  const Loops<float>& of_float;
  const Loops<double>& of_double;
  const CovarianceLoops& of_covariance;
};

/// The fastest set that the processor runs, or the one that ORTHOBATCH_LOOPS names.
Set choose() {
  [[maybe_unused]] const base::VectorUnits units = base::vector_units();
  const Set sets[] = {
#ifdef ORTHOBATCH_X86
      {"avx512", units.avx512, avx512::of_float, avx512::of_double, avx512::of_covariance},
      {"avx2", units.avx2, avx2::of_float, avx2::of_double, avx2::of_covariance},
#endif
      {"plain", true, plain::of_float, plain::of_double, plain::of_covariance}};
  const char* asked = std::getenv("ORTHOBATCH_LOOPS");
  std::string known;
  for (const Set& set : sets) {
    if (set.runs_here && (!asked || std::string(asked) == set.name)) return set;
    if (set.runs_here) known += std::string(known.empty() ? "" : ", ") + set.name;
  }
  throw std::runtime_error("ORTHOBATCH_LOOPS: expected a set of loops that this processor runs (" +
                           known + "), found '" + asked + "'");
}

const Set& chosen() {
  static const Set set = choose();
  return set;
}

}  // namespace

const char* loops_name() { return chosen().name; }

template <>
const Loops<float>& loops<float>() {
  return chosen().of_float;
}
template <>
const Loops<double>& loops<double>() {
  return chosen().of_double;
}
const CovarianceLoops& covariance_loops() { return chosen().of_covariance; }

}  // namespace orthobatch::kernels
