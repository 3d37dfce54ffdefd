#pragma once
// What the tables of runs share.

#include <string>
#include <vector>

#include "run/run_list.h"

namespace orthobatch::cli {

/// Without what a terminal would obey.
std::string printable(std::string text);

/// The last part of a run's path.
std::string folder_name(const std::string& path);

/// Stands for what was cut out of a cell.
std::string gap_text();

/// A column of a table of runs.
struct RunColumn {
  const char* name;
  int leaves = 0;  ///< where there is no room: 1 first, then 2 …; 0: it stays
  bool may_be_cut = false;
};

/// A table in the width of the terminal; in a file nothing is left out.
std::string run_table(const std::vector<RunColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows);

}  // namespace orthobatch::cli
