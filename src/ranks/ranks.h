#pragma once
// The processes that train a net together: this one alone, or several over c10d's Gloo.

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/share.h"
#include "orthobatch/process_group.h"
#include "ranks/place.h"

namespace orthobatch {

/// As it stands, a process alone; every rank of several calls the same in the same order. Rank 0
/// leads: it alone reads and writes the run. What fails for another rank's sake throws RankError.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  bool leads() const { return rank() == 0; }
  bool alone() const { return size() == 1; }
  Share share_of_work() const { return {rank(), size()}; }

  /// For the layers' statistics; none where alone.
  virtual ProcessGroup statistics() { return nullptr; }

  /// Throws on every rank where one has another value, or ended before.
  virtual void agree(const std::string& /*topic*/, const nlohmann::json& /*value*/) {}
  /// The leader's text.
  virtual std::string broadcast(const std::string& text) { return text; }
  /// The leader's values, in place.
  virtual void share(const std::vector<at::Tensor>& /*tensors*/) {}
  /// The sum over all ranks, in place: begun, and there when what it returns has been called.
  virtual std::function<void()> begin_sum(at::Tensor /*t*/) {
    return [] {};
  }
  void sum(const at::Tensor& t) { begin_sum(t)(); }

  /// Tells the others why this rank ends.
  virtual void fail(const std::string& /*why*/) {}
  /// After that, and before this process ends: stays where the others need it to learn why.
  virtual void see_off() {}
  /// Whether whoever started the ranks wants them to end.
  virtual bool asked_to_stop() const { return false; }
  /// That this process has waited for others, in all.
  virtual double seconds_waited() const { return 0; }
};

/// This process alone.
Ranks& this_process();

/// The ranks that meet at a place; returns when all are there and have the same `about`.
std::unique_ptr<Ranks> join_ranks(const Place& place, const nlohmann::json& about);

}  // namespace orthobatch
