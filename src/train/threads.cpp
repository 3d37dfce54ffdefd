#include "train/threads.h"

#include <fmt/core.h>
#include <torch/utils.h>

#include <future>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace orthobatch::train {

void use_threads(int count) {
  const int needed = 2 * count + 2;  // of OpenMP and of the pool, and those that make batches
  std::promise<void> tried;
  const std::shared_future<void> done = tried.get_future().share();
  std::vector<std::thread> made;
  try {
    while (static_cast<int>(made.size()) < needed) made.emplace_back([done] { done.wait(); });
  } catch (const std::system_error&) {
    // As many as there can be.
  }
  tried.set_value();
  for (std::thread& thread : made) thread.join();
  if (static_cast<int>(made.size()) < needed)
    throw std::runtime_error(
        fmt::format("threads: expected room for {} (ulimit -u, or a container's limit), found {}; "
                    "raise the limit or give fewer --threads",
                    needed, made.size()));
  torch::set_num_threads(count);
}

}  // namespace orthobatch::train
