#include "ranks/launcher.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "ranks/meeting.h"

namespace orthobatch::ranks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds watching(20), grace_if_stopped(500), grace(15'000);

/// A file without a name, for c10d's FileStore: this process and the ranks it starts can open it,
/// and it goes with the last of them.
std::string nameless_file() {
  const int file = ::memfd_create("orthobatch-store", 0);
  if (file < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  return fmt::format("/proc/self/fd/{}", file);
}

/// This process's environment, with these in it.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& own) {
  std::vector<std::string> out;
  for (char** v = environ; *v; ++v) {
    const std::string variable = *v;
    if (own.count(variable.substr(0, variable.find('='))) == 0) out.push_back(variable);
  }
  for (const auto& [name, value] : own) out.push_back(name + "=" + value);
  return out;
}

class Children {
 public:
  explicit Children(const Launch& launch) : launch_(launch), meeting_(place_of(launch)) {
    for (int rank = 0; rank < launch.processes; ++rank) start(rank);
  }

  int wait() {
    bool passed_on = false;
    while (std::any_of(children_.begin(), children_.end(), runs)) {
      for (Child& child : children_) look(child);
      if (launch_.interrupted && !passed_on) {
        for (const Child& child : children_)
          if (runs(child)) ::kill(child.process, SIGTERM);
        passed_on = true;
      }
      if (lost_) end_the_rest();
      std::this_thread::sleep_for(watching);
    }
    return code_;
  }

 private:
  struct Child {
    int rank;
    pid_t process;
    bool ended = false, stopped = false, given_up = false;
  };
  static bool runs(const Child& child) { return !child.ended; }

  static Place place_of(const Launch& launch) {
    Place out;
    out.rank = -1;
    out.size = launch.processes;
    out.file = nameless_file();
    out.timeout = launch.timeout;
    return out;
  }

  void start(int rank) {
    const std::string size = std::to_string(launch_.processes);
    std::vector<std::string> variables = environment_with({{"RANK", std::to_string(rank)},
                                                           {"WORLD_SIZE", size},
                                                           {"LOCAL_WORLD_SIZE", size},
                                                           {file_variable, meeting_.place().file}});
    std::vector<char*> environment;
    for (std::string& v : variables) environment.push_back(v.data());
    environment.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "cannot start a rank");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // where this process is killed its ranks stop
      if (::getppid() != parent) ::_exit(1);
      ::execve("/proc/self/exe", launch_.argv, environment.data());
      ::_exit(127);
    }
    children_.push_back({rank, child});
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
    if (code_ == 0) code_ = code;
    if (!lost_) lost_ = Clock::now();
    const std::string name = fmt::format("rank {} (process {})", child.rank, child.process);
    if (WIFEXITED(status)) {
      if (code < 128) meeting_.tell(fmt::format("{} ended with exit code {}", name, code));
    } else if (child.given_up) {
      launch_.complain(fmt::format("{} did not end by itself and was killed", name));
    } else {
      const int number = WTERMSIG(status);
      const std::string why =
          fmt::format("{} was ended by signal {} ({})", name, number, ::strsignal(number));
      if (!launch_.interrupted) launch_.complain(why);
      meeting_.tell(why);
    }
  }

  /// They end by themselves, unless one is stopped or hangs.
  void end_the_rest() {
    const auto waited = Clock::now() - *lost_;
    for (Child& child : children_) {
      if (child.ended || waited < (child.stopped ? grace_if_stopped : launch_.timeout + grace))
        continue;
      child.given_up = true;
      ::kill(child.process, SIGKILL);
    }
  }

  const Launch& launch_;
  Meeting meeting_;
  std::vector<Child> children_;
  int code_ = 0;
  std::optional<Clock::time_point> lost_;  ///< when the first rank ended that did not end well
};

}  // namespace

int launch(const Launch& launch) { return Children(launch).wait(); }

}  // namespace orthobatch::ranks
