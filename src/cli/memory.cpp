#include "cli/memory.h"

#include <malloc.h>

namespace orthobatch::cli {

void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace orthobatch::cli
