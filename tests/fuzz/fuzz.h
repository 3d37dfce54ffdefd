#pragma once
// A fuzz target is one function and its corpus; fuzz.cpp drives it, guided by the code it reaches.

#include <cstdint>
#include <string>
#include <vector>

/// Parses the bytes. FileError is the right answer to bad ones; any other end is a fault.
void parse_bytes(const std::vector<uint8_t>& bytes);

/// Good inputs to start from.
std::vector<std::vector<uint8_t>> corpus();
