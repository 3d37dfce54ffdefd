#pragma once
// What the ranks tell each other through c10d's store: who is there, that they do the same, and why
// one ended.

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ranks/ranks.h"

namespace orthobatch::ranks {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

/// Begins a call on a thread of its own. Nothing can end a call to a host that is cut off, so
/// nobody has to wait for it: it must own all it uses.
template <typename Call>
auto begin(Call call) {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

/// Why all ranks of a launcher end. It is not in their store: where a rank is killed while it
/// writes to a FileStore, the others read at the half of a record for ever. The first text stays.
void post_notice(const std::string& path, const std::string& why);
std::optional<std::string> read_notice(const std::string& path);

/// A connection of its own; `serve`: this process keeps the store. Throws RankError.
StorePointer open_store(const Place& place, bool serve);

/// Calls wait for the timeout of the place at most, and 5 s for an answer of the store. What fails
/// throws RankError, which names a rank.
class Meeting {
 public:
  explicit Meeting(const Place& place);

  /// Takes this rank's place; throws where another process has it.
  void enter();
  /// Throws, on every rank, where one has another value than rank 0, or does not come.
  void agree(const std::string& topic, const nlohmann::json& value);
  /// Rank 0's text, to all.
  std::string broadcast(const std::string& text);
  /// False after the timeout; throws where a rank has ended.
  bool wait(std::chrono::milliseconds timeout, const std::function<bool()>& done);
  /// An exchange of tensors failed: finds out which rank is lost, and throws.
  [[noreturn]] void lost(const std::string& error);
  /// Tells all ranks why they end, unless one was faster. Returns what they are told.
  std::string tell(const std::string& why) noexcept;

  const Place place;

 private:
  template <typename Call>
  auto ask(Call call);
  void set(const std::string& key, const std::string& text);
  std::optional<std::string> look(const std::string& key);
  bool all_have(const std::string& what, int count);
  std::string names_without(const std::string& what, int count);
  void wait_for(const std::string& what, int count);
  std::optional<std::string> end_reason();

  StorePointer& store_;  ///< never deleted: destructors of c10d wait for other processes
  bool store_gone_ = false;
  int64_t topics_ = 0;
};

}  // namespace orthobatch::ranks
