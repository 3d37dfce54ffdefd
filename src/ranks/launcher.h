#pragma once
// Several ranks on this machine, each a process.

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

namespace orthobatch::ranks {

struct Launch {
  char** argv;  ///< of this program, which each rank runs again
  int processes;
  std::chrono::milliseconds timeout;  ///< of an exchange between ranks
  const std::atomic<bool>& interrupted;
  std::function<void(const std::string&)> complain;
};

/// Starts the ranks, passes an interruption on to them and waits until all have ended. Returns 0
/// where all ended well, 1 where a signal ended one, else the exit code of the first that failed.
int launch(const Launch& launch);

}  // namespace orthobatch::ranks
