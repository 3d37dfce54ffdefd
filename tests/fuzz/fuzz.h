#pragma once
// A fuzz target is one function and its corpus, driven by libFuzzer:
//
//   fuzz_TARGET [OPTIONS] CORPUS_FOLDER… seeds     the target's own good inputs are written to the folder seeds first
//   fuzz_TARGET FILE                               runs one input again

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/file.h"
#include "rooms.h"

/// Parses the bytes. FileError or std::invalid_argument is the right answer to bad ones; any other
/// end is a fault.
void parse_bytes(const std::vector<uint8_t>& bytes);

/// Good inputs to start from.
std::vector<std::vector<uint8_t>> corpus();

/// Whether the parser took them; ends the process at a fault.
inline bool accepts(const std::vector<uint8_t>& bytes) {
  const auto refused = [](const std::exception& error) {
    if (std::strlen(error.what()) < 10) throw std::logic_error("an error without a message");
    return false;
  };
  try {
    parse_bytes(bytes);
    return true;
  } catch (const orthobatch::FileError& error) {
    return refused(error);
  } catch (const std::invalid_argument& error) {
    return refused(error);
  }
}

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
