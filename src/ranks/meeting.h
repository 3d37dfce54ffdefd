#pragma once
// What the ranks tell each other through c10d's store: who is there, that they do the same, and why
// one ended.

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ranks/place.h"

namespace orthobatch::ranks {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

/// A connection of its own to the store; `serve`: this process keeps it. Throws RankError.
StorePointer open_store(const Place& place, bool serve);

/// Every call ends: after the timeout of the place, or 5 s after the store was last heard of. What
/// fails throws RankError that names a rank.
class Meeting {
 public:
  explicit Meeting(const Place& place);

  const Place& place() const { return place_; }

  /// Takes this rank's place; throws where another process has it.
  void enter();
  /// Throws, on every rank, where one has another value than rank 0, or does not come.
  void agree(const std::string& topic, const nlohmann::json& value);
  /// Rank 0's text, to all.
  std::string broadcast(const std::string& text);

  /// False after the timeout; throws where a rank has ended.
  bool wait(const std::function<bool()>& done);
  /// An exchange of tensors failed: finds out which rank is lost, and throws.
  [[noreturn]] void lost(const std::string& error);

  /// Tells all ranks why they end. Returns what was told first. Throws nothing.
  std::string tell(const std::string& why) noexcept;
  /// Tells that this rank ends, and why if it has an error; whoever keeps the store waits until the
  /// others have read that. Throws nothing.
  void leave(const std::string& error) noexcept;

 private:
  template <typename Call>
  auto ask(Call call);
  void set(const std::string& key, const std::string& text);
  int64_t add(const std::string& key, int64_t more);
  bool check(const std::vector<std::string>& keys);
  std::optional<std::string> look(const std::string& key);
  std::vector<std::string> keys_of(const std::string& what) const;
  std::string name_of(int rank);
  std::string names_without(const std::string& what);
  std::string absent(const std::string& what);
  std::string store_lost(const std::string& error) const;

  const Place place_;
  const std::chrono::milliseconds patience_;
  StorePointer& store_;  ///< never deleted: destructors of c10d wait for other processes
  bool store_gone_ = false;
  std::vector<std::string> names_;
  int64_t broadcasts_ = 0, agreements_ = 0;
};

}  // namespace orthobatch::ranks
