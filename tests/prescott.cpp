// Loaded before OpenBLAS (LD_PRELOAD), says what OpenBLAS says of a processor newer than its list.

#include <dlfcn.h>

#include <cstdlib>

extern "C" char* openblas_get_corename() {
  static char prescott[] = "Prescott";
  if (!std::getenv("OPENBLAS_CORETYPE")) return prescott;
  using Function = char* (*)();
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "openblas_get_corename"))();
}
