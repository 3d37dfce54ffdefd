#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ranks/place.h"
#include "ranks/store.h"

namespace orthobatch {

/// Calls, one after another, on a thread of its own: one that is never answered, as from a host
/// that is cut off, cannot be ended, but it need not be waited for either.
class BoundedCalls {
 public:
  explicit BoundedCalls(std::chrono::milliseconds patience);
  ~BoundedCalls();
  BoundedCalls(const BoundedCalls&) = delete;
  BoundedCalls& operator=(const BoundedCalls&) = delete;

  /// The call must own all it needs. Throws what it throws, or RankError after the patience; from
  /// then on at once.
  template <typename Call>
  auto operator()(Call call) -> decltype(call()) {
    const auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
    auto result = task->get_future();
    add([task] { (*task)(); });
    if (result.wait_for(patience_) != std::future_status::ready) give_up();
    return result.get();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> calls;
    bool ends = false, gave_up = false;
  };
  void add(std::function<void()> call);
  [[noreturn]] void give_up();
  static void work(const std::shared_ptr<State>& state);

  const std::chrono::milliseconds patience_;
  const std::shared_ptr<State> state_;
};

struct Store::Impl {
  c10::intrusive_ptr<c10d::Store> store;
  int port;
  std::shared_ptr<BoundedCalls> calls;
};

}  // namespace orthobatch
