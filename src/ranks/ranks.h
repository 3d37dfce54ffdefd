#pragma once
// The processes that train a net together: this one alone, or several over c10d's Gloo.

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/share.h"
#include "orthobatch/process_group.h"

namespace orthobatch::ranks {

/// Another rank, or the connection to it, is lost. The text names the rank.
struct RankError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Place {
  int rank = 0, size = 1;
  std::string address;        ///< host of c10d's TCPStore, or path of its FileStore
  int port = 0;               ///< 0: a FileStore
  std::string notice;         ///< file of a launcher: why all ranks end; empty: the store has it
  bool has_launcher = false;  ///< our own or torchrun's agent keeps the store; else rank 0 does
  std::string prefix;         ///< of the store's keys: one for each attempt of torchrun
  std::chrono::milliseconds timeout{300'000};

  bool keeps_store() const { return !has_launcher && rank == 0; }
};

/// By these variables our launcher names the FileStore and the notice.
constexpr const char* file_variable = "ORTHOBATCH_STORE";
constexpr const char* notice_variable = "ORTHOBATCH_NOTICE";

/// From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which `get` (std::getenv) returns; none
/// where RANK and WORLD_SIZE are not set. Throws std::invalid_argument that names the variable at
/// fault.
std::optional<Place> place_from(const std::function<const char*(const char*)>& get);

/// As it stands, a process alone. Every rank of several calls the same in the same order. Rank 0
/// leads: it alone reads and writes the run. Where another rank is lost, a call throws RankError.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  bool leads() const { return rank() == 0; }
  bool alone() const { return size() == 1; }
  base::Share share_of_work() const { return {rank(), size()}; }

  /// For the layers' statistics; none where alone.
  virtual ProcessGroup statistics() { return nullptr; }

  /// Throws on every rank where one has another value than rank 0.
  virtual void agree(const std::string& /*topic*/, const nlohmann::json& /*value*/) {}
  /// The leader's text.
  virtual std::string broadcast(const std::string& text) { return text; }
  /// The leader's values, in place.
  virtual void share(const std::vector<at::Tensor>& /*tensors*/) {}
  /// Begins the sum over all ranks, in place, and returns what waits for it.
  virtual std::function<void()> begin_sum(at::Tensor /*t*/) {
    return [] {};
  }
  void sum(const at::Tensor& t) { begin_sum(t)(); }

  /// Called once, at the end. `error`: why this rank ends before the others, who are told; or
  /// empty.
  virtual void leave(const std::string& /*error*/) {}
  /// Time in exchanges so far, waiting for other ranks included.
  virtual double seconds_waited() const { return 0; }
};

/// This process alone.
Ranks& this_process();

/// Returns when all ranks are at the place and have the same `about`. The result lives as long as
/// the process: destructors of c10d wait for other ranks.
Ranks& join_ranks(const Place& place, const nlohmann::json& about);

struct Launch {
  char** argv;  ///< of this program, which each rank runs again
  int processes;
  std::chrono::milliseconds timeout;   ///< of an exchange between ranks
  std::function<void()> take_signals;  ///< from now on, into `interrupted`
  const std::atomic<bool>& interrupted;
  std::function<void(const std::string&)> complain;
};

/// Starts the ranks on this machine, passes an interruption on to them and waits until all have
/// ended. Returns 0 where all ended well, 1 where a signal ended one, else the exit code of the
/// first that failed.
int launch(const Launch& launch);

}  // namespace orthobatch::ranks
