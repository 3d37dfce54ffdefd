#include "cli/interrupt.h"

#include <csignal>

namespace orthobatch::cli {
namespace {

std::atomic<bool> flag{false};
std::atomic<int> signal_number{SIGINT};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "set in a signal handler");

extern "C" void note_signal(int number) {
  signal_number = number;
  flag = true;
  std::signal(number, SIG_DFL);
}

}  // namespace

void stop_on_signals() {
  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);
  // Whoever said nohup means it.
  if (std::signal(SIGHUP, note_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

const std::atomic<bool>& interrupted() { return flag; }

int interrupted_code() { return 128 + signal_number; }

}  // namespace orthobatch::cli
