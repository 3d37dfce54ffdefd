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

Set choose() {
#ifdef ORTHOBATCH_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return {avx512::of_float, avx512::of_double, avx512::of_covariance};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {avx2::of_float, avx2::of_double, avx2::of_covariance};
#endif
  return {plain::of_float, plain::of_double, plain::of_covariance};
}

const Set& chosen() {
  static const Set set = choose();
  return set;
}

}  // namespace

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
