// A limit on the address space (ulimit -v) that leaves OpenBLAS no room for its buffers has it ask
// for them for ever, in part before main: said here, before any library starts.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

// Beyond the program and its libraries as they are loaded: for a small training, as measured; and
// for each thread of OpenBLAS its stack, its buffer and the buffer of a caller beside it.
constexpr uint64_t of_the_program = uint64_t{384} << 20, of_a_thread = uint64_t{160} << 20;

/// Bytes of the address space in use; 0 where the system does not say.
uint64_t address_space_in_use() {
  char text[64] = {};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t n = ::read(file, text, sizeof text - 1);
  ::close(file);
  return n > 0 ? std::strtoull(text, nullptr, 10) * static_cast<uint64_t>(::getpagesize()) : 0;
}

uint64_t blas_threads() {
  const auto cores = static_cast<uint64_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  for (const char* name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* value = ::getenv(name);
    if (value && ::atoi(value) > 0) {
      const auto asked = static_cast<uint64_t>(::atoi(value));
      return asked < cores ? asked : cores;
    }
  }
  return cores;
}

void refuse_short_memory(int, char**, char**) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const uint64_t needed = address_space_in_use() + of_the_program + blas_threads() * of_a_thread;
  if (limit.rlim_cur >= needed) return;
  char line[200];
  const int length = std::snprintf(
      line, sizeof line,
      "orthobatch: out of memory: expected a limit of %llu KiB or more (ulimit -v), found %llu\n",
      static_cast<unsigned long long>(needed >> 10),
      static_cast<unsigned long long>(limit.rlim_cur >> 10));
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, line, static_cast<size_t>(length));
  ::_exit(1);
}

// Sanitizers start from this list too and take address space by the terabyte.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((section(".preinit_array"),
               used)) void (*const at_start)(int, char**, char**) = refuse_short_memory;
#else
[[maybe_unused]] void (*const not_at_start)(int, char**, char**) = refuse_short_memory;
#endif

}  // namespace
