// libFuzzer's side of a target: fuzz_TARGET [OPTIONS] CORPUS_FOLDER… seeds, or fuzz_TARGET FILE to
// run one input again. The target's own good inputs are written to the folder seeds first.

#include <cstdio>
#include <cstdlib>

#include "fuzz.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  orthobatch::make_directories("seeds");
  int number = 0;
  for (const auto& seed : corpus()) {
    if (!accepts(seed)) {
      std::fprintf(stderr, "an input of the corpus is refused\n");
      std::exit(1);
    }
    orthobatch::write_file("seeds/" + std::to_string(number++), seed.data(), seed.size());
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  accepts({data, data + size});
  return 0;
}
