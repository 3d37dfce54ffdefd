// orthobatch compare: the curves of runs in the terminal, and where their configs differ.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "base/plot.h"
#include "base/table.h"
#include "cli/run_text.h"
#include "cli/verbs.h"
#include "io/file.h"
#include "io/json.h"
#include "io/terminal.h"
#include "run/comparison.h"
#include "run/names.h"

namespace orthobatch::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t least_runs = 2, most_runs = 26;  // a letter each

struct CompareArguments {
  std::vector<std::string> runs;
  bool ascii = false, json = false;
};

struct Comparison {
  std::vector<ListedRun> runs;
  std::vector<SettingRow> differences;
};

char letter_of(size_t run) { return static_cast<char>('A' + run); }

Comparison compare_runs(const std::vector<std::string>& paths) {
  Comparison out;
  std::vector<std::vector<SettingValue>> settings;
  for (const std::string& path : paths) {
    if (!is_run(path))
      throw FileError(join_path(path, config_name), "file", "the config of a run", "none");
    out.runs.push_back(look_at_run(path));
    settings.push_back(settings_of_run(path));
  }
  out.differences = differing_settings(settings);
  return out;
}

// --- text ----------------------------------------------------------------------------------------

/// On a terminal a table has its width; in a file nothing is cut.
size_t table_width() { return std::max<size_t>(40, terminal_width(STDOUT_FILENO, 1 << 20)); }
size_t plot_width() { return std::clamp<size_t>(terminal_width(STDOUT_FILENO, 100), 40, 120); }

std::string figures_table(const std::vector<ListedRun>& runs) {
  const std::vector<RunColumn> columns = {
      {"", 0}, {"run", 0, true}, {"layer", 0, true}, {"data", 2}, {"epochs"},  {"best %"},
      {"at"},  {"last %"},       {"train loss", 1},  {"s/epoch"}, {"state", 3}};
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& r = runs[i].record;
    const EpochRecord *best = r.best(), *last = r.last();
    const std::optional<double> seconds = runs[i].seconds_per_epoch();
    const auto known = [&](const std::string& text) { return r.layers.empty() ? "-" : text; };
    rows.push_back(
        {std::string(1, letter_of(i)), folder_name(r.path), known(r.layers), known(r.data),
         fmt::format("{}/{}", last ? last->epoch : 0, known(std::to_string(r.epochs_wanted))),
         best ? fmt::format("{:.2f}", best->test.error_percent) : "-",
         best ? std::to_string(best->epoch) : "-",
         last ? fmt::format("{:.2f}", last->test.error_percent) : "-",
         last ? fmt::format("{:.4g}", last->train_loss) : "-",
         seconds ? fmt::format("{:.1f}", *seconds) : "-", state_text(runs[i].state)});
  }
  return run_table(columns, rows);
}

template <typename Take>
std::string figure(const std::vector<ListedRun>& runs, const char* title, const PlotStyle& style,
                   const Take& take) {
  std::vector<PlotCurve> curves;
  for (size_t i = 0; i < runs.size(); ++i) {
    curves.push_back({letter_of(i), {}, {}});
    for (const EpochRecord& e : runs[i].record.epochs) {
      curves.back().x.push_back(static_cast<double>(e.epoch));
      curves.back().y.push_back(take(e));
    }
  }
  const std::string drawing = plot(curves, style);
  if (drawing.empty()) return "";
  return fmt::format("{}{}, by epoch\n{}\n", title, wants_log_scale(curves) ? ", log scale" : "",
                     drawing);
}

std::string legend(const std::vector<ListedRun>& runs, const PlotStyle& style) {
  std::string out;
  size_t column = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string name = folder_name(runs[i].path());
    const size_t width = display_width(name) + 5;
    const bool first = i == 0 || column + width > style.width;
    out += fmt::format("{}{} {}",
                       i == 0  ? ""
                       : first ? "\n"
                               : "   ",
                       in_colour(std::string(1, letter_of(i)), i, style.colour), name);
    column = first ? width : column + width;
  }
  return out + "\n";
}

std::string differences_table(const Comparison& c) {
  if (c.differences.empty()) return "No setting differs.\n";
  std::vector<std::vector<std::string>> rows = {{"setting"}};
  std::vector<size_t> values;
  for (size_t i = 0; i < c.runs.size(); ++i) {
    rows[0].emplace_back(1, letter_of(i));
    values.push_back(i + 1);
  }
  for (const SettingRow& setting : c.differences) {
    rows.push_back({setting.name});
    for (const auto& value : setting.values) rows.back().push_back(printable(value_text(value)));
  }
  return "Settings that differ:\n" +
         format_fitted_table(rows, table_width(), values, 8, gap_text());
}

std::string notes_text(const std::vector<ListedRun>& runs) {
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::string> notes = runs[i].notes;
    for (const std::string& change : changes_in_run(runs[i].path()))
      notes.push_back("changed " + change);
    for (const std::string& note : notes)
      out += fmt::format("{}: {}\n", letter_of(i), printable(note));
  }
  return out;
}

void print(const Comparison& c, bool ascii) {
  PlotStyle style;
  style.width = plot_width();
  style.unicode = !ascii && locale_is_utf8();
  style.colour = shows_colour(STDOUT_FILENO);
  fmt::print("{}\n", figures_table(c.runs));
  fmt::print("{}", figure(c.runs, "test error, %", style,
                          [](const EpochRecord& e) { return e.test.error_percent; }));
  fmt::print("{}", figure(c.runs, "training loss", style,
                          [](const EpochRecord& e) { return e.train_loss; }));
  fmt::print("{}\n{}", legend(c.runs, style), differences_table(c));
  const std::string notes = notes_text(c.runs);
  fmt::print("{}{}", notes.empty() ? "" : "\n", notes);
}

// --- JSON ----------------------------------------------------------------------------------------

ordered_json comparison_json(const Comparison& c) {
  ordered_json out = {{"runs", ordered_json::array()}, {"differences", ordered_json::array()}};
  for (const ListedRun& run : c.runs) {
    ordered_json r = to_json(run);
    ordered_json curves = {{"epoch", ordered_json::array()},
                           {"test_error_percent", ordered_json::array()},
                           {"test_loss", ordered_json::array()},
                           {"train_loss", ordered_json::array()}};
    for (const EpochRecord& e : run.record.epochs) {
      curves["epoch"].push_back(e.epoch);
      curves["test_error_percent"].push_back(e.test.error_percent);
      curves["test_loss"].push_back(e.test.loss ? ordered_json(*e.test.loss) : ordered_json());
      curves["train_loss"].push_back(e.train_loss);
    }
    r["curves"] = std::move(curves);
    out["runs"].push_back(std::move(r));
  }
  for (const SettingRow& row : c.differences)
    out["differences"].push_back({{"setting", row.name}, {"values", row.values}});
  return out;
}

int compare_and_print(const CompareArguments& a) {
  const Comparison comparison = compare_runs(a.runs);
  if (a.json)
    fmt::print("{}\n", json_text(comparison_json(comparison)));
  else
    print(comparison, a.ascii);
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "compare", "Curves of runs in the terminal, their figures, and where their settings differ");
  auto a = std::make_shared<CompareArguments>();
  verb->add_option("RUN", a->runs, fmt::format("Folders of {} to {} runs", least_runs, most_runs))
      ->required();
  verb->add_flag("--ascii", a->ascii,
                 "Curves of plain letters, as where the locale is not one of UTF-8");
  verb->add_flag("--json", a->json, "JSON in place of curves and tables");
  verb->footer(
      "A log scale where the values are far apart. Colours on a terminal, unless NO_COLOR is set.\n"
      "As a page with figures: orthobatch report RUN RUN");
  verb->callback([&run, a] {
    if (a->runs.size() < least_runs || a->runs.size() > most_runs)
      throw CLI::ValidationError("RUN", fmt::format("expected {} to {} runs, found {}", least_runs,
                                                    most_runs, a->runs.size()));
    run = [a] { return compare_and_print(*a); };
  });
}

}  // namespace orthobatch::cli
