#pragma once
// A verb in several processes: started here, or by whoever sets RANK and WORLD_SIZE.

#include <CLI/CLI.hpp>

#include "ranks/ranks.h"

namespace orthobatch::cli {

struct ProcessOptions {
  std::optional<int> processes;
  double timeout = 300;  ///< seconds
};
/// `what` is said of --processes.
void add_process_options(CLI::App& verb, ProcessOptions& options, const std::string& what);
extern const char* const training_together;

/// The command line with which each rank of this machine is started.
void remember_arguments(char** argv);

/// Whether this process was started as one of several.
bool is_rank();
/// WORLD_SIZE, or --processes; 0: neither is set.
int processes_asked_for(const ProcessOptions& options);
/// How many of `processes` are on this machine.
int processes_here(const ProcessOptions& options, int processes);

/// Throws std::invalid_argument where the file is a pipe: every rank reads it.
void require_for_all(const std::string& option, const std::string& path);

using RankWork = std::function<int(ranks::Ranks&)>;
/// Does `work` as one of `processes` ranks and returns the exit code. Where the ranks are not
/// started yet, starts each with the command line of this process and waits for them. `about` is
/// what the ranks must agree on. A rank that fails tells the others why, and ends the process.
int run_in_ranks(const ProcessOptions& options, int processes, const nlohmann::json& about,
                 const RankWork& work);

}  // namespace orthobatch::cli
