// orthobatch reproduce: trains the rows of an experiment and writes their report.

#include "experiment/reproduce.h"

#include <fmt/core.h>

#include <filesystem>

#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "cli/restart.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "io/file.h"
#include "ranks/ranks.h"
#include "report/page.h"
#include "report/summary.h"

namespace orthobatch::cli {
namespace {

struct ReproduceArguments {
  std::string experiment;
  experiment::ExperimentChanges changes;
  experiment::ReproduceOptions options;
  bool quiet = false, dry_run = false;
  ProcessOptions ranks;
};

/// Without folders: they are the reader's own.
std::string command_text(const ReproduceArguments& a) {
  std::string text =
      "orthobatch reproduce " + std::filesystem::path(a.experiment).filename().string();
  const auto add = [&](const char* option, const std::optional<int64_t>& value) {
    if (value) text += fmt::format(" {} {}", option, *value);
  };
  add("--epochs", a.changes.epochs);
  add("--seeds", a.changes.seeds);
  add("--subset", a.changes.subset);
  if (!a.changes.head.empty()) text += " --head " + a.changes.head;
  if (!a.changes.padding.empty()) text += " --padding " + a.changes.padding;
  for (const std::string& pattern : a.changes.rows) text += fmt::format(" --rows '{}'", pattern);
  if (const int n = processes_asked_for(a.ranks); n > 1) text += fmt::format(" --processes {}", n);
  if (a.options.threads > 0) text += fmt::format(" --threads {}", a.options.threads);
  return text + " --out DIR";
}

/// A name that is neither an experiment's nor a file's is a mistake; what is wrong in a file is not
/// one of the command line.
experiment::Experiment experiment_of(const ReproduceArguments& a) {
  const auto find = [&] { return experiment::find_experiment(a.experiment); };
  return io::file_exists(a.experiment) ? find() : or_usage_error(find);
}

int reproduce(ReproduceArguments a, ranks::Ranks& ranks) {
  experiment::Experiment all = experiment_of(a);
  experiment::Experiment chosen = all;
  experiment::ExperimentChanges without_rows = a.changes;
  without_rows.rows.clear();
  or_usage_error([&] {
    experiment::apply(without_rows, all);
    experiment::apply(a.changes, chosen);
  });
  a.options.command = command_text(a);
  a.options.processes_here = processes_here(a.ranks, ranks.size());
  const std::unique_ptr<train::Progress> progress = terminal_progress(a.quiet || !ranks.leads());
  if (const std::string note = restart_note(); !note.empty()) progress->line(note);
  experiment::Reproduction reproduction(chosen, all, a.options, *progress, interrupted(), ranks);
  if (!ranks.leads()) {
    stop_on_signals();
    reproduction.follow();
    return 0;
  }
  reproduction.open();
  if (a.dry_run) {
    fmt::print("{}\n", reproduction.plan());
    return 0;
  }
  if (!a.quiet) progress->line(reproduction.plan());
  reproduction.prepare();
  stop_on_signals();
  const experiment::Reproduction::Outcome outcome = reproduction.run();
  progress->clear();

  const std::vector<experiment::ExperimentResult> results =
      experiment::read_results({a.options.out});
  if (!outcome.stopped) {
    for (const experiment::ExperimentResult& result : results)
      if (result.experiment.name == chosen.name) say("\n{}", report::to_text(result));
    say("{} trained now, {} were done before, {} diverged, {} failed.\n", outcome.trained,
        outcome.found_done, outcome.diverged.size(), outcome.failed.size());
  }
  const std::string page = io::join_path(a.options.out, "report.html");
  io::write_file(page, report::report_page(results, {}));
  if (outcome.stopped) {
    complain("stopped; the same command continues");
    return interrupted_code();
  }
  say("Report: {}\n", page);
  for (const std::string& row : outcome.failed) complain(row);
  return outcome.failed.empty() ? 0 : 1;
}

}  // namespace

void add_reproduce(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "reproduce", "Trains all nets of an experiment of the paper and writes a report");
  auto a = std::make_shared<ReproduceArguments>();
  verb->add_option(
          "EXPERIMENT", a->experiment,
          base::join_choices(experiment::experiment_names()) + "; or a JSON file of the same form")
      ->required();
  verb->add_option("-o,--out", a->options.out, "Folder of the runs and report.html")
      ->type_name("DIR")
      ->required();
  verb->add_option("--epochs", a->changes.epochs, "Epochs of every run")
      ->check(whole_number(1, 100000))
      ->default_str("those of the experiment");
  verb->add_option("--seeds", a->changes.seeds, "Number of seeds for every row, 1 to N")
      ->check(whole_number(1, 1000))
      ->default_str("those of the experiment");
  verb->add_option("--rows", a->changes.rows,
                   "Shell pattern; only rows whose name, with or without arguments, matches it. "
                   "May be repeated")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)
      ->type_name("PATTERN")
      ->default_str("all");
  verb->add_option("--subset", a->changes.subset, "Number of training images, the first ones")
      ->check(whole_number(2, 100000000))
      ->default_str("that of the experiment");
  verb->add_option("--head", a->changes.head, "Head of every net, as of train")
      ->type_name("flat|average|max")
      ->default_str("that of the experiment");
  verb->add_option("--padding", a->changes.padding, "Padding of every net, as of train")
      ->type_name("valid|same")
      ->default_str("that of the experiment");
  add_threads(*verb, a->options.threads);
  add_data_directory(*verb, a->options.data_dir);
  add_process_options(*verb, a->ranks, training_together);
  verb->add_flag("--dry-run", a->dry_run,
                 "Print how many runs are left and about how long they take; write nothing");
  verb->add_flag("--quiet", a->quiet, "Print only the table and errors");
  verb->callback([&run, a] {
    run = [a] {
      keep_freed_memory();
      const int processes =
          a->dry_run ? 1 : or_usage_error([&] { return processes_asked_for(a->ranks); });
      if (processes > 1) {  // a mistake is told before any rank is started
        require_for_all("EXPERIMENT", a->experiment);
        experiment::Experiment chosen = experiment_of(*a);
        or_usage_error([&] { experiment::apply(a->changes, chosen); });
      }
      const nlohmann::json about = {{"verb", "reproduce"}, {"experiment", a->experiment}};
      return run_in_ranks(a->ranks, processes, about,
                          [a](ranks::Ranks& ranks) { return reproduce(*a, ranks); });
    };
  });
}

}  // namespace orthobatch::cli
