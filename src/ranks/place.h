#pragma once
// Which of how many processes this one is, and where they meet.

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace orthobatch::ranks {

/// Another rank, or the connection to it, is lost. The text names the rank.
struct RankError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Place {
  int rank = 0, size = 1;
  std::string address;        ///< host of c10d's TCPStore, or path of its FileStore
  int port = 0;               ///< 0: a FileStore
  bool has_launcher = false;  ///< our own or torchrun's agent keeps the store; else rank 0 does
  std::string prefix;         ///< of the store's keys: one for each attempt of torchrun
  std::chrono::milliseconds timeout{300'000};

  bool keeps_store() const { return !has_launcher && rank == 0; }
};

/// By this variable our launcher names the FileStore.
constexpr const char* file_variable = "ORTHOBATCH_STORE";

/// From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which `get` (std::getenv) returns; none
/// where RANK and WORLD_SIZE are not set. Throws std::invalid_argument that names the variable at
/// fault.
std::optional<Place> place_from(const std::function<const char*(const char*)>& get);

}  // namespace orthobatch::ranks
