#pragma once
// The ranks of one machine: a process each, and one that watches over them.

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

namespace orthobatch {

struct Launch {
  char** argv;  ///< of this program, which each rank starts anew
  int processes;
  std::chrono::milliseconds timeout;  ///< of an exchange between ranks
  const std::atomic<bool>& interrupted;
  std::function<void(const std::string&)> complain;  ///< with what became of a rank
};

/// Starts the ranks, with a store on loopback, and waits for their end: that of all where one does
/// not end well. Returns 0 where all did, else the exit code of one that did not.
int launch(const Launch& launch);

}  // namespace orthobatch
