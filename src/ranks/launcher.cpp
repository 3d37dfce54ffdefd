#include "ranks/launcher.h"

#include <fmt/core.h>
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

namespace orthobatch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* loopback = "127.0.0.1";
constexpr milliseconds watching(50), grace(2000), longer_grace(15'000);

/// This process's environment, with these in it.
std::vector<std::string> with(const std::map<std::string, std::string>& own) {
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
  explicit Children(const Launch& launch)
      : launch_(launch), store_(Store::keep(loopback, 0, launch.timeout)) {
    for (int rank = 0; rank < launch.processes; ++rank) start(rank);
  }

  int wait() {
    bool stopping = false;
    while (std::any_of(children_.begin(), children_.end(), runs)) {
      for (Child& child : children_) look(child);
      if (launch_.interrupted && !stopping) ask_to_stop(store_);
      stopping = launch_.interrupted;
      if (lost_) end_the_rest();
      std::this_thread::sleep_for(watching);
    }
    return code_;
  }

 private:
  struct Child {
    int rank;
    pid_t process;
    bool ended = false;
  };
  static bool runs(const Child& child) { return !child.ended; }

  void start(int rank) {
    const std::string of_all = std::to_string(launch_.processes), own = std::to_string(rank);
    std::vector<std::string> variables = with({{"RANK", own},
                                               {"LOCAL_RANK", own},
                                               {"WORLD_SIZE", of_all},
                                               {"LOCAL_WORLD_SIZE", of_all},
                                               {"MASTER_ADDR", loopback},
                                               {"MASTER_PORT", std::to_string(store_.port())},
                                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    std::vector<char*> environment;
    for (std::string& v : variables) environment.push_back(v.data());
    environment.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "cannot start a rank");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // ranks stop where nobody watches over them
      if (::getppid() != parent) ::_exit(1);
      ::execve("/proc/self/exe", launch_.argv, environment.data());
      ::_exit(127);
    }
    children_.push_back({rank, child});
  }

  void look(Child& child) {
    int status = 0;
    if (child.ended || ::waitpid(child.process, &status, WNOHANG) != child.process) return;
    child.ended = true;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 0) return;
    if (code_ == 0) code_ = code;
    if (WIFSIGNALED(status)) {
      const std::string why =
          fmt::format("rank {} (process {}) was ended by signal {} ({})", child.rank, child.process,
                      WTERMSIG(status), ::strsignal(WTERMSIG(status)));
      launch_.complain(why);
      tell_verdict(store_, {child.rank, why});
    }
    if (!lost_) lost_ = Clock::now();
  }

  /// The others end by themselves; one that the verdict names may not be able to.
  void end_the_rest() {
    const auto waited = Clock::now() - *lost_;
    const std::optional<Verdict> verdict = look_for_verdict(store_);
    for (Child& child : children_) {
      const bool named = verdict && verdict->rank == child.rank && waited > grace;
      if (child.ended || (!named && waited < launch_.timeout + longer_grace)) continue;
      ::kill(child.process, SIGKILL);
    }
  }

  const Launch& launch_;
  Store store_;
  std::vector<Child> children_;
  int code_ = 0;
  std::optional<Clock::time_point> lost_;  ///< when the first rank ended that did not end well
};

}  // namespace

int launch(const Launch& launch) { return Children(launch).wait(); }

}  // namespace orthobatch
