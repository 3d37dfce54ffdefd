#include "heap.h"
#include "rooms.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace orthobatch::test::heap {
namespace {

// Used by malloc before main begins: initialized at compile time.
std::atomic<bool> counting{false};
std::atomic<int64_t> bytes{0}, most{0};

#ifndef __SANITIZE_ADDRESS__
void add(int64_t change) {
  const int64_t total = bytes.fetch_add(change, std::memory_order_relaxed) + change;
  int64_t before = most.load(std::memory_order_relaxed);
  while (total > before && !most.compare_exchange_weak(before, total, std::memory_order_relaxed)) {
  }
}

bool is_counting() { return counting.load(std::memory_order_relaxed); }

int64_t size_of(void* block) { return static_cast<int64_t>(malloc_usable_size(block)); }

void* counted(void* block) {
  if (block && is_counting()) add(size_of(block));
  return block;
}
#endif

}  // namespace

bool can_count() {
#ifdef __SANITIZE_ADDRESS__
  return false;
#else
  return true;
#endif
}

void start() {
  bytes = 0;
  most = 0;
  counting = true;
}

void stop() { counting = false; }

int64_t in_use() { return bytes; }
int64_t peak() { return most; }
void reset_peak() { most = bytes.load(); }

}  // namespace orthobatch::test::heap

#ifndef __SANITIZE_ADDRESS__
// The C library finds these in place of its own, as its manual allows ("Replacing malloc").
// NOLINTBEGIN(bugprone-reserved-identifier): its names
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

void* malloc(size_t size) { return orthobatch::test::heap::counted(__libc_malloc(size)); }

void* calloc(size_t count, size_t size) {
  return orthobatch::test::heap::counted(__libc_calloc(count, size));
}

void* realloc(void* block, size_t size) {
  using namespace orthobatch::test::heap;
  const int64_t before = block && is_counting() ? size_of(block) : 0;
  void* moved = __libc_realloc(block, size);
  // A request that failed leaves the block as it was; one of size 0 frees it.
  if (is_counting() && (moved || size == 0)) add((moved ? size_of(moved) : 0) - before);
  return moved;
}

void* memalign(size_t alignment, size_t size) {
  return orthobatch::test::heap::counted(__libc_memalign(alignment, size));
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
    return EINVAL;
  void* made = memalign(alignment, size);
  if (!made) return ENOMEM;
  *block = made;
  return 0;
}

void free(void* block) {
  if (block && orthobatch::test::heap::is_counting())
    orthobatch::test::heap::add(-orthobatch::test::heap::size_of(block));
  __libc_free(block);
}
}
// NOLINTEND(bugprone-reserved-identifier)
#endif
