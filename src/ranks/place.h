#pragma once
// Which of how many processes this one is, and where they meet: the environment everyone uses.

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace orthobatch {

/// A training that cannot go on for want of another rank, or of the way to it. The text names it.
struct RankError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Place {
  int rank = 0, size = 1;
  std::string address;  ///< of the store: a name or a number
  int port = 0;
  /// Rank 0 keeps the store; false: whoever started the ranks does, as torchrun and our own
  /// launcher do.
  bool keeps_store = true;
  std::string prefix;  ///< of the store's keys: one for each attempt of torchrun
  std::chrono::milliseconds timeout{300'000};
};

/// As std::getenv.
using Environment = std::function<const char*(const char*)>;

/// The place that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell; none where RANK and
/// WORLD_SIZE are not set. Throws std::invalid_argument that names the variable at fault.
std::optional<Place> place_from(const Environment& environment);

}  // namespace orthobatch
