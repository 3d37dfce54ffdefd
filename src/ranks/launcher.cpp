#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "ranks/meeting.h"

namespace orthobatch::ranks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds watching(20), grace_if_stopped(500), grace(15'000);

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

/// For all ranks: a file without a name, which they inherit and which goes with the last of them.
std::string shared_file(const char* what) {
  return fmt::format("/proc/self/fd/{}", checked(::memfd_create(what, 0), "memfd_create"));
}

class Children {
 public:
  explicit Children(const Launch& launch) : launch_(launch) {
    const std::string size = std::to_string(launch.processes);
    ::setenv("WORLD_SIZE", size.c_str(), 1);
    ::setenv("LOCAL_WORLD_SIZE", size.c_str(), 1);
    ::setenv(file_variable, shared_file("store").c_str(), 1);
    ::setenv(notice_variable, notice_.c_str(), 1);
    for (int rank = 0; rank < launch.processes; ++rank) start(rank);
    launch
        .take_signals();  // not before: a rank would inherit the handler until it runs the program
  }

  int wait() {
    bool passed_on = false;
    while (std::any_of(children_.begin(), children_.end(), runs)) {
      for (Child& child : children_) look(child);
      if (launch_.interrupted && !passed_on)
        for (const Child& child : children_)
          if (runs(child)) ::kill(child.process, SIGTERM);
      passed_on = launch_.interrupted;
      if (code_ != 0) end_the_rest();
      std::this_thread::sleep_for(watching);
    }
    return code_;
  }

 private:
  struct Child {
    std::string name;
    pid_t process;
    bool ended = false, stopped = false, given_up = false;
  };
  static bool runs(const Child& child) { return !child.ended; }

  void start(int rank) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    const pid_t parent = ::getpid();
    const pid_t child = checked(::fork(), "cannot start a rank");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // where this process is killed its ranks stop
      if (::getppid() == parent) ::execv("/proc/self/exe", launch_.argv);
      ::_exit(127);
    }
    children_.push_back({fmt::format("rank {} (process {})", rank, child), child});
  }

  void look(Child& child) {
    int status = 0;
    const int changes = WNOHANG | WUNTRACED | WCONTINUED;
    if (child.ended || ::waitpid(child.process, &status, changes) != child.process) return;
    child.stopped = WIFSTOPPED(status);
    child.ended = WIFEXITED(status) || WIFSIGNALED(status);
    if (child.ended) note_end(child, status);
  }

  void note_end(const Child& child, int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (code == 0) return;
    if (code_ == 0) {
      first_failure_ = Clock::now();
      code_ = code;
    }
    std::string why = fmt::format("{} ended with exit code {}", child.name, code);
    if (WIFSIGNALED(status)) {
      why = child.given_up ? child.name + " did not end by itself and was killed"
                           : fmt::format("{} was ended by signal {} ({})", child.name,
                                         WTERMSIG(status), ::strsignal(WTERMSIG(status)));
      if (!launch_.interrupted) launch_.complain(why);
    }
    if (code < 128) post_notice(notice_, why);  // else a signal stopped it, and with it all
  }

  /// They end by themselves, unless one is stopped or hangs.
  void end_the_rest() {
    const auto waited = Clock::now() - first_failure_;
    for (Child& child : children_) {
      if (child.ended || waited < (child.stopped ? grace_if_stopped : launch_.timeout + grace))
        continue;
      child.given_up = true;
      ::kill(child.process, SIGKILL);
    }
  }

  const Launch& launch_;
  const std::string notice_ = shared_file("notice");
  std::vector<Child> children_;
  int code_ = 0;  ///< of the first that failed
  Clock::time_point first_failure_;
};

}  // namespace

int launch(const Launch& launch) { return Children(launch).wait(); }

}  // namespace orthobatch::ranks
