#pragma once
// Bytes in use on the heap, counted at malloc and free themselves: tensors, vectors, and what
// oneDNN and LAPACK ask for alike. Memory mapped without malloc (OpenBLAS's fixed buffers, JIT
// code) is not seen.

#include <cstdint>
#include "rooms.h"

namespace orthobatch::test::heap {

/// False in builds with a sanitizer, which has a malloc of its own.
bool can_count();

/// Counts from 0, from now on. A block that was there before and is freed counts as negative.
void start();
void stop();

int64_t in_use();
/// The most in use since the last reset.
int64_t peak();
void reset_peak();

}  // namespace orthobatch::test::heap
