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

/// Products of oneDNN (2.6) keep data below the stack pointer, where the system puts what it saves
/// for a handler: a signal in the middle of one then damages the heap. On a stack of its own it
/// cannot. Signals to the process are taken by the main thread, which this is.
void take_signals_on_a_stack_of_their_own() {
  static char own[1 << 16];  // AVX-512 and AMX registers take 11 KiB of it
  stack_t stack{};
  stack.ss_sp = own;
  stack.ss_size = sizeof own;
  ::sigaltstack(&stack, nullptr);
}

void note(int number) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  ::sigaction(number, &action, nullptr);
}

bool is_ignored(int number) {
  struct sigaction action {};
  ::sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

void stop_on_signals() {
  take_signals_on_a_stack_of_their_own();
  note(SIGINT);
  note(SIGTERM);
  if (!is_ignored(SIGHUP)) note(SIGHUP);  // whoever said nohup means it
}

const std::atomic<bool>& interrupted() { return flag; }

int interrupted_code() { return 128 + signal_number; }

}  // namespace orthobatch::cli
