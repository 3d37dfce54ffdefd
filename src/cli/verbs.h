#pragma once
// The verbs of the program. Each adds its subcommand and leaves what to run in `run`.

#include <CLI/CLI.hpp>

#include <functional>

namespace orthobatch::cli {

/// What the chosen verb does; returns the exit code.
using Run = std::function<int()>;

void add_bench(CLI::App& app, Run& run);
void add_layers(CLI::App& app, Run& run);
void add_compare(CLI::App& app, Run& run);
void add_check(CLI::App& app, Run& run);
void add_data(CLI::App& app, Run& run);
void add_eval(CLI::App& app, Run& run);
void add_export(CLI::App& app, Run& run);
void add_report(CLI::App& app, Run& run);
void add_reproduce(CLI::App& app, Run& run);
void add_runs(CLI::App& app, Run& run);
void add_train(CLI::App& app, Run& run);

}  // namespace orthobatch::cli
