// Stands before the program (LD_PRELOAD) and interrupts it three thousand times a second, in the
// way it takes its own signals: from when it handles SIGTERM on, SIGALRM comes with the same flags.
// Where those let the system use the stack that a product of oneDNN is at work on, the heap is
// damaged within a second.

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <thread>

namespace {

extern "C" void tick(int) {}

void wait_and_tick() {
  struct sigaction theirs {};
  do {
    ::usleep(1000);
    ::sigaction(SIGTERM, nullptr, &theirs);
  } while (theirs.sa_handler == SIG_DFL);
  struct sigaction ours {};
  ours.sa_handler = tick;
  ours.sa_flags = theirs.sa_flags | SA_RESTART;
  ::sigaction(SIGALRM, &ours, nullptr);
  const itimerval often = {{0, 300}, {0, 300}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
}

/// In a thread that takes no signals itself.
[[maybe_unused]] const bool started = [] {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread(wait_and_tick).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return true;
}();

}  // namespace
