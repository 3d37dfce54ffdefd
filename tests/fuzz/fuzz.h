#pragma once
// A fuzz target is one function and its corpus. With clang libFuzzer drives it (libfuzzer.cpp),
// else a loop of our own (fuzz.cpp); both are guided by the code it reaches.

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/file.h"

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
