// orthobatch runs: a table of the runs below folders.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "cli/options.h"
#include "cli/run_list.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "experiment/experiment.h"
#include "io/json.h"
#include "report/table.h"
#include "run/names.h"

namespace orthobatch::cli {
namespace {

struct RunsArguments {
  std::vector<std::string> folders = {run::runs_name};
  std::string sort = "best", data, layer;
  bool json = false;
};

/// A run that is reached by two ways is one.
std::vector<ListedRun> runs_below(const std::vector<std::string>& folders) {
  std::vector<ListedRun> out;
  std::set<std::string> seen;
  for (const std::string& folder : folders)
    for (const std::string& path : find_runs(folder)) {
      std::error_code ignored;
      if (seen.insert(std::filesystem::weakly_canonical(path, ignored).string()).second)
        out.push_back(look_at_run(path));
    }
  return out;
}

/// Its place below the one folder that was named; else the whole path.
std::string name_below(const std::string& path, const std::vector<std::string>& folders) {
  const std::string relative = std::filesystem::path(path).lexically_relative(folders[0]).string();
  return folders.size() == 1 && !relative.empty() && relative != "." ? relative : path;
}

int list(const RunsArguments& a) {
  std::vector<ListedRun> runs = runs_below(a.folders);
  const auto other = [&](const ListedRun& run) {
    return (!a.data.empty() && run.record.data != a.data) ||
           (!a.layer.empty() && !experiment::row_matches(a.layer, run.record.layers));
  };
  const size_t found = runs.size();
  runs.erase(std::remove_if(runs.begin(), runs.end(), other), runs.end());
  sort_runs(runs, a.sort);
  if (a.json) {
    nlohmann::ordered_json out = {{"runs", nlohmann::ordered_json::array()}};
    for (const ListedRun& run : runs) out["runs"].push_back(to_json(run));
    say("{}\n", io::json_text(out));
    return 0;
  }
  const std::string place = a.folders.size() == 1 ? " in " + base::printable(a.folders[0]) : "";
  if (runs.empty()) {
    say("no runs{}{}\n", place, found > 0 ? fmt::format(" that match, {} in all", found) : "");
    return 0;
  }
  report::TextRows rows = {run_columns};
  for (const ListedRun& run : runs)
    rows.push_back(run_cells(run, name_below(run.path(), a.folders)));
  say("{} run{}{}\n\n{}", runs.size(), runs.size() == 1 ? "" : "s", place,
      report::format_fitted_table(rows, table_width(), {0, 1}));
  std::string notes;
  for (const ListedRun& run : runs)
    for (const std::string& note : run.notes)
      notes +=
          base::printable(fmt::format("{}: {}", name_below(run.path(), a.folders), note)) + "\n";
  say("{}{}", notes.empty() ? "" : "\n", notes);
  return 0;
}

}  // namespace

void add_runs(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("runs", "Lists runs: layer, data, epochs, error, state");
  auto a = std::make_shared<RunsArguments>();
  verb->add_option("DIR", a->folders, "Folders that hold runs, at any depth")
      ->default_str(run::runs_name);
  verb->add_option("--sort", a->sort, "Column to sort by; newest, and most epochs, first")
      ->capture_default_str()
      ->check(CLI::IsMember(run_orders()));
  verb->add_option("--data", a->data, "Only runs on this data set")->default_str("all");
  verb->add_option("--layer", a->layer,
                   "Shell pattern; only runs whose layer, with or without arguments, matches it")
      ->type_name("PATTERN")
      ->default_str("all");
  verb->add_flag("--json", a->json, "JSON in place of the table");
  verb->footer(
      "States: finished (all epochs, or stopped early by its own rules), running (a process "
      "trains\n"
      "it), stopped (train --resume continues it), diverged, failed, empty (no epoch yet), "
      "damaged.");
  verb->callback([&run, a] { run = [a] { return list(*a); }; });
}

}  // namespace orthobatch::cli
