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
  const Loops<float>& of_float;
  const Loops<double>& of_double;
  const CovarianceLoops& of_covariance;
};

const Set& chosen() {
  static const Set set = [] {
#ifdef ORTHOBATCH_X86
    if (base::loop_set() == base::LoopSet::avx512)
      return Set{avx512::of_float, avx512::of_double, avx512::of_covariance};
    if (base::loop_set() == base::LoopSet::avx2)
      return Set{avx2::of_float, avx2::of_double, avx2::of_covariance};
#endif
    return Set{plain::of_float, plain::of_double, plain::of_covariance};
  }();
  return set;
}

}  // namespace

const char* loops_name() { return base::to_string(base::loop_set()); }

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
