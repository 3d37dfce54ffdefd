#include "data/workers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace orthobatch::data {

void for_each_index(int64_t count, int threads, const std::function<void(int64_t)>& work,
                    const Progressed& progressed) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto take_all = [&](bool tells) {
    try {
      for (int64_t i; (i = next++) < count;) {
        work(i);
        if (tells && progressed) progressed(i + 1, count);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  const int64_t wanted = std::min<int64_t>(threads, count);
  for (int64_t k = 1; k < wanted; ++k) others.emplace_back(take_all, false);
  take_all(true);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace orthobatch::data
