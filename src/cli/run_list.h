#pragma once
// The runs below a folder, each with the state it is in, as `runs` and `compare` show them.

#include <nlohmann/json.hpp>

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "run/run_record.h"

namespace orthobatch::cli {

enum class RunState {
  finished,  ///< all epochs, or its rules stopped it
  running,   ///< a process has it in hand
  stopped,   ///< may go on
  diverged,
  failed,   ///< failed.txt says why
  empty,    ///< no epoch has ended
  damaged,  ///< a file of it cannot be read
};
const char* state_text(RunState state);

struct ListedRun {
  run::RunRecord record;
  RunState state = RunState::empty;
  std::vector<std::string> notes;  ///< why: what is damaged, how it diverged, what stopped it early
  std::time_t changed = 0;         ///< when a file of it was last written

  const std::string& path() const { return record.path; }
};

/// Never throws for what is in the files.
ListedRun look_at_run(const std::string& path);

/// The folder itself and those below it that hold a run, by name; links to folders are not
/// followed. Throws FileError where it is no folder.
std::vector<std::string> find_runs(const std::string& folder);

/// By a column of the table; runs that have nothing there come last.
std::vector<std::string> run_orders();
void sort_runs(std::vector<ListedRun>& runs, const std::string& order);

/// The columns of a table of runs, and a run's cells in it.
extern const std::vector<std::string> run_columns;
std::vector<std::string> run_cells(const ListedRun& run, const std::string& name);

/// What a program reads of a run; docs/runs.md has the members.
nlohmann::ordered_json to_json(const ListedRun& run);

}  // namespace orthobatch::cli
