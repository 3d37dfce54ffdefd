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
  std::string file;     ///< of c10d's FileStore, where our launcher started the ranks; else empty
  std::string address;  ///< of c10d's TCPStore: a name or a number
  int port = 0;
  bool has_agent = false;  ///< torchrun's agent keeps the TCPStore; else rank 0 does
  std::string prefix;      ///< of the store's keys: one for each attempt of torchrun
  std::chrono::milliseconds timeout{300'000};

  bool keeps_store() const { return file.empty() && !has_agent && rank == 0; }
};

/// As std::getenv.
using Environment = std::function<const char*(const char*)>;

/// From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; none where RANK and WORLD_SIZE are not set.
/// Throws std::invalid_argument that names the variable at fault.
std::optional<Place> place_from(const Environment& environment);

/// The variable by which the launcher names Place::file.
constexpr const char* file_variable = "ORTHOBATCH_STORE";

}  // namespace orthobatch::ranks
