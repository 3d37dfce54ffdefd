#pragma once

namespace orthobatch::cli {

/// Tensors of a step are freed and asked for again at once: kept in the heap, they cost no page
/// faults. (A threshold would not do: glibc maps blocks beyond 32 MiB whatever it is set to.)
void keep_freed_memory();

}  // namespace orthobatch::cli
