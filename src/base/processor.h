#pragma once
// The processor, and what the libraries that compute on it take it for.

#include <string>

namespace orthobatch::base {

/// "AMD EPYC …", as the system calls it; "unknown" where it does not say.
std::string processor_name();

/// Vector units that the processor has and the system lets programs use.
struct VectorUnits {
  bool avx2 = false;    ///< AVX2 and FMA
  bool avx512 = false;  ///< AVX-512 F, VL, BW and DQ
};
VectorUnits vector_units();

/// The set of our own inner loops, each compiled for some vector units: the fastest that the processor
/// runs, unless ORTHOBATCH_LOOPS in the environment names another.
enum class LoopSet { plain, avx2, avx512 };
LoopSet loop_set();
/// "plain", "avx2" or "avx512"
const char* to_string(LoopSet set);

/// The kernels that BLAS and LAPACK run on. OpenBLAS chooses them when it is loaded, by a list of
/// processors: one that is newer than the list it takes for a Prescott of 2004, at a quarter of the
/// speed.
struct BlasCore {
  std::string library;  ///< "OpenBLAS 0.3.21"; "BLAS" where it is another
  std::string name;     ///< "Haswell"; empty where it is another
  std::string better;  ///< the value of OPENBLAS_CORETYPE for this processor, where `name` is wrong
};
BlasCore blas_core();

/// "OpenBLAS 0.3.21 as Haswell"
std::string to_string(const BlasCore& core);

/// The part of blas_core that decides: empty where `name` serves a processor with these units.
std::string better_core(const std::string& name, const VectorUnits& units);

}  // namespace orthobatch::base
