#pragma once
// Loops over the threads, for the N×N work. The count is OpenMP's, which is at::set_num_threads's;
// inside another such loop there is one thread.

#include <cstdint>
#include <exception>

namespace orthobatch::core {

/// work(i) for i in [0, count), each by one thread. What is thrown first in the order of i reaches
/// the caller, after the loop. No result may depend on which thread has which i.
template <typename Work>
void parallel_for(int64_t count, const Work& work) {
  // Not by an if clause: libgomp makes new threads for a loop within a region of one thread.
  if (count <= 1) {
    if (count == 1) work(0);
    return;
  }
  std::exception_ptr error;
  int64_t failed = count;
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) {
    try {
      work(i);
    } catch (...) {
#pragma omp critical(orthobatch_parallel_for)
      if (i < failed) {
        failed = i;
        error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

/// The same over [0, size) cut into ranges of `grain`: work(begin, end).
template <typename Work>
void parallel_ranges(int64_t size, int64_t grain, const Work& work) {
  parallel_for((size + grain - 1) / grain, [&](int64_t r) {
    const int64_t begin = r * grain, end = begin + grain < size ? begin + grain : size;
    work(begin, end);
  });
}

/// Up to this N one thread does N×N work: below it threads cost more than they give.
constexpr int64_t one_thread = 128;

/// The rows of an N×N matrix in ranges: work(begin, end).
template <typename Work>
void parallel_rows(int64_t n, const Work& work) {
  parallel_ranges(n, n <= one_thread ? one_thread : one_thread / 2, work);
}

}  // namespace orthobatch::core
