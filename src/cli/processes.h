#pragma once
// A verb in several processes: started here, or by whoever sets RANK and WORLD_SIZE.

#include <CLI/CLI.hpp>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

namespace orthobatch {
class Ranks;
}

namespace orthobatch::cli {

struct ProcessOptions {
  std::optional<int> processes;
  double timeout = 300;  ///< seconds
};
/// `what` is said of --processes.
void add_process_options(CLI::App& verb, ProcessOptions& options, const std::string& what);
extern const char* const training_together;

/// What starts this program anew, for the ranks of this machine.
void remember_arguments(char** argv);

/// Whether this process was started as one of several.
bool is_rank();
/// How many processes the environment, or the option, says that train together; 0: neither.
int processes_asked_for(const ProcessOptions& options);
/// How many of so many are on this machine.
int processes_here(const ProcessOptions& options, int processes);

/// Throws std::invalid_argument where a file that every rank reads can be read but once.
void require_for_all(const std::string& option, const std::string& path);

/// Does `work` as one of `processes` ranks. Where nobody has started them they are started here,
/// each with the command line of this one, and waited for. `about` is what they must agree on.
/// Returns the exit code; a rank that fails tells the others why, and ends the process.
int run_in_ranks(const ProcessOptions& options, int processes, const nlohmann::json& about,
                 const std::function<int(Ranks&)>& work);

}  // namespace orthobatch::cli
