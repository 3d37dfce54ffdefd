#include "ranks/store.h"

#include <fmt/core.h>

#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "nn/message.h"
#include "ranks/address.h"
#include "ranks/listening.h"
#include "ranks/place.h"
#include "ranks/store_impl.h"

namespace orthobatch {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// LibTorch 2 would use libuv, which Debian's is built without; 1.13 does not know the word.
template <typename Options>
auto without_libuv(Options& options, int) -> decltype(options.useLibUV = false, void()) {
  options.useLibUV = false;
}
template <typename Options>
void without_libuv(Options&, long) {}

template <typename Call>
auto or_gone(const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    throw RankError("the store is gone: " + message_of(error));
  }
}

constexpr const char* no_answer = "it does not answer";

}  // namespace

BoundedCalls::BoundedCalls(std::chrono::milliseconds patience)
    : patience_(patience), state_(std::make_shared<State>()) {
  std::thread([state = state_] { work(state); }).detach();
}

BoundedCalls::~BoundedCalls() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->ends = true;
  state_->changed.notify_all();
}

void BoundedCalls::add(std::function<void()> call) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->gave_up) throw RankError(no_answer);
  state_->calls.push_back(std::move(call));
  state_->changed.notify_all();
}

void BoundedCalls::give_up() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->gave_up = true;
  throw RankError(no_answer);
}

void BoundedCalls::work(const std::shared_ptr<State>& state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->ends || !state->calls.empty(); });
    if (state->calls.empty()) return;
    const std::function<void()> call = std::move(state->calls.front());
    state->calls.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

Store Store::open(const std::string& address, int port, Timeout timeout, bool keeps) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = keeps;
  options.waitWorkers = false;
  options.timeout = timeout;
  without_libuv(options, 0);
  auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
  const int bound = store->getPort();
  return Store(std::make_shared<Impl>(Impl{store, bound, std::make_shared<BoundedCalls>(timeout)}));
}

Store Store::keep(const std::string& address, int port, Timeout timeout) {
  const ListenOnlyAt only(address, port);
  try {
    return open(address, port, timeout, true);
  } catch (const std::exception& error) {
    throw RankError(
        fmt::format("cannot keep a store at {}:{}: {}", address, port, message_of(error)));
  }
}

Store Store::connect(const std::string& address, int port, Timeout timeout) {
  wait_for_listener(address, port, timeout);
  return or_gone([&] { return open(address, port, timeout, false); });
}

Store Store::below(const std::string& prefix) const {
  return Store(std::make_shared<Impl>(Impl{
      c10::make_intrusive<c10d::PrefixStore>(prefix, impl_->store), impl_->port, impl_->calls}));
}

void Store::set(const std::string& key, const std::string& text) {
  or_gone([&] {
    (*impl_->calls)([store = impl_->store, key, text] { store->set(key, bytes_of(text)); });
  });
}

std::optional<std::string> Store::look(const std::string& key) {
  return or_gone([&] {
    return (*impl_->calls)([store = impl_->store, key]() -> std::optional<std::string> {
      if (!store->check({key})) return std::nullopt;
      return text_of(store->get(key));
    });
  });
}

std::string Store::set_first(const std::string& key, const std::string& text) {
  return or_gone([&] {
    return (*impl_->calls)([store = impl_->store, key, text] {
      return text_of(store->compareSet(key, {}, bytes_of(text)));
    });
  });
}

int64_t Store::add(const std::string& key, int64_t more) {
  return or_gone([&] {
    return (*impl_->calls)([store = impl_->store, key, more] { return store->add(key, more); });
  });
}

int Store::port() const { return impl_->port; }

}  // namespace orthobatch
