#include "cli/interrupt.h"

#include <csignal>
#include <cstdint>
#include <ctime>

namespace orthobatch::cli {
namespace {

std::atomic<bool> flag{false};
std::atomic<int> signal_number{SIGTERM};  // of a rank that stops because another got a signal
std::atomic<int64_t> first_time{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "set in a signal handler");

extern "C" void note_signal(int number) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t milliseconds = now.tv_sec * int64_t{1000} + now.tv_nsec / 1'000'000;
  if (!flag) {
    first_time = milliseconds;
    signal_number = number;
    flag = true;
  } else if (milliseconds - first_time >= 1000) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
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
