#pragma once
// What the ranks tell each other through the store, beside the tensors they exchange: who is there,
// that they are about the same thing, that they live, and why one ended.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ranks/place.h"
#include "ranks/store.h"

namespace orthobatch {

/// Why the ranks end, as the first to know it has told.
struct Verdict {
  int rank = -1;  ///< the one at fault; -1: none of them
  std::string text;
};
/// Keeps the first.
Verdict tell_verdict(Store& store, const Verdict& verdict);
std::optional<Verdict> look_for_verdict(Store& store);
/// Asks all ranks to end as a signal does.
void ask_to_stop(Store& store);

class Meeting {
 public:
  /// Finds the store, or keeps it, and takes the place there.
  explicit Meeting(const Place& place);
  /// Says goodbye.
  ~Meeting();
  /// Who keeps the store stays until the others have left; where something is wrong, at least until
  /// they can have read what.
  void see_off();

  const Place& place() const { return place_; }
  Store& store() { return store_; }

  /// Throws RankError, on every rank, where one has another value than rank 0, or does not come.
  /// `topic` says what it is.
  void agree(const std::string& topic, const nlohmann::json& value);

  /// Rank 0's text, to all.
  std::string broadcast(const std::string& text);

  /// Tells the others why this rank ends.
  void fail(const std::string& why);

  /// Throws RankError that says which rank is lost, as far as can be found out.
  [[noreturn]] void lost(const std::string& error);

  /// One more exchange of tensors is done; who is behind is seen from it.
  void count() { ++exchanges_; }

  bool asked_to_stop() const { return asked_to_stop_; }

 private:
  void claim();
  void beat();
  /// Waits until `done`; throws the verdict where there is one, or RankError of `late()`.
  void wait(const std::function<bool()>& done, const std::function<std::string()>& late);
  std::string name_of(int rank);
  std::string absent(const std::string& keys);
  std::string find_out(const std::string& error, Store& store);

  const Place place_;
  Store store_;
  int64_t broadcasts_ = 0, agreements_ = 0;
  std::atomic<int64_t> exchanges_{0};
  std::atomic<bool> asked_to_stop_{false};

  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread beats_;
};

}  // namespace orthobatch
