#include "cli/interrupt.h"

#include <csignal>

namespace orthobatch::cli {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

extern "C" void note_signal(int number) {
  flag = true;
  std::signal(number, SIG_DFL);
}

}  // namespace

void stop_on_signals() {
  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);
}

const std::atomic<bool>& interrupted() { return flag; }

}  // namespace orthobatch::cli
