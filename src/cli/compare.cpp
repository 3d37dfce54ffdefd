// orthobatch compare: the figures of runs side by side, and where their configs differ.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "cli/options.h"
#include "cli/run_list.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "experiment/results.h"
#include "io/file.h"
#include "io/json.h"
#include "report/table.h"
#include "run/names.h"
#include "run/settings.h"

namespace orthobatch::cli {
namespace {

using nlohmann::json;

constexpr size_t least_runs = 2, most_runs = 26;  // a letter each

std::string letter_of(size_t run) { return std::string(1, static_cast<char>('A' + run)); }

/// All that config.json says of a run, as this version understands it: "layer" for the layers of
/// all blocks, the rest of a block by its number. Null where it cannot be read.
json settings_of(const std::string& path) {
  try {
    const std::string file = io::join_path(path, run::config_name);
    const json object = io::parse_json(io::read_text(file), file);
    const run::TrainConfig config = run::config_from_json(object, file);
    json out = to_json(config), blocks;
    for (size_t i = 0; i < out.at("blocks").size(); ++i) {
      blocks[std::to_string(i + 1)] = out["blocks"][i];
      blocks[std::to_string(i + 1)].erase("layer");
    }
    out["blocks"] = blocks;
    out["layer"] = run::layers_text(config);
    for (const char* key : {"version", "found", "changed"})
      if (object.contains(key)) out[key] = object.at(key);
    return out;
  } catch (const std::exception&) {
    return nullptr;  // look_at_run names what is wrong
  }
}

/// A setting that some of the runs have otherwise, with its value in each; null: it has none.
struct DifferingSetting {
  std::string name;
  std::vector<json> values;
};

std::vector<DifferingSetting> differing_settings(const std::vector<ListedRun>& runs) {
  std::vector<json> settings;
  for (const ListedRun& run : runs) settings.push_back(settings_of(run.path()));
  std::set<std::string> names;
  const auto first =
      std::find_if(settings.begin(), settings.end(), [](const json& s) { return s.is_object(); });
  for (auto other = first; other != settings.end(); ++other)
    if (other->is_object())
      for (const io::Difference& d : io::differences(*first, *other)) names.insert(d.key);
  const bool other_data = names.count("data") + names.count("subset") > 0;
  std::vector<DifferingSetting> out;
  for (const std::string& name : names) {
    if (other_data && name.rfind("found.", 0) == 0) continue;  // other data has other images
    std::string pointer = "/" + name;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    out.push_back({name, {}});
    for (const json& s : settings)
      out.back().values.push_back(s.value(json::json_pointer(pointer), json()));
  }
  return out;
}

std::string value_text(const json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return base::printable(value.get<std::string>());
  return value.is_number_float() ? base::number_text(value.get<double>())
                                 : base::printable(value.dump());
}

void print(const std::vector<ListedRun>& runs, const std::vector<DifferingSetting>& differing) {
  report::TextRows figures = {run_columns}, settings = {{"setting"}};
  figures[0].insert(figures[0].begin(), "");
  std::vector<size_t> values;
  std::string notes;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto folder = std::filesystem::path(runs[i].path() + "/").parent_path().filename();
    figures.push_back(run_cells(runs[i], folder.string()));
    figures.back().insert(figures.back().begin(), letter_of(i));
    settings[0].push_back(letter_of(i));
    values.push_back(i + 1);
    for (const std::string& note : runs[i].notes)
      notes += letter_of(i) + ": " + base::printable(note) + "\n";
  }
  for (const DifferingSetting& setting : differing) {
    settings.push_back({setting.name});
    for (const json& value : setting.values) settings.back().push_back(value_text(value));
  }
  say("{}\n", report::format_fitted_table(figures, table_width(), {1, 2}));
  if (differing.empty())
    say("No setting differs.\n");
  else
    say("Settings that differ:\n{}", report::format_fitted_table(settings, table_width(), values));
  say("{}{}", notes.empty() ? "" : "\n", notes);
}

int compare_runs(const std::vector<std::string>& paths, bool as_json) {
  std::vector<ListedRun> runs;
  for (const std::string& path : paths) {
    if (!run::is_run(path))
      throw io::FileError(io::join_path(path, run::config_name), "file", "the config of a run",
                          "none");
    runs.push_back(look_at_run(path));
  }
  const std::vector<DifferingSetting> differing = differing_settings(runs);
  if (!as_json) {
    print(runs, differing);
    return 0;
  }
  nlohmann::ordered_json out = {{"runs", nullptr}, {"differences", json::array()}};
  for (const ListedRun& run : runs) out["runs"].push_back(to_json(run));
  for (const DifferingSetting& s : differing)
    out["differences"].push_back({{"setting", s.name}, {"values", s.values}});
  say("{}\n", io::json_text(out));
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("compare",
                                  "Prints the results of runs side by side, and the settings that "
                                  "differ");
  auto paths = std::make_shared<std::vector<std::string>>();
  auto as_json = std::make_shared<bool>(false);
  verb->add_option("RUN", *paths, fmt::format("Folders of {} to {} runs", least_runs, most_runs))
      ->required();
  verb->add_flag("--json", *as_json, "JSON in place of the tables");
  verb->footer("Their curves, as a page: orthobatch report RUN RUN");
  verb->callback([&run, paths, as_json] {
    if (paths->size() < least_runs || paths->size() > most_runs)
      throw CLI::ValidationError("RUN", fmt::format("expected {} to {} runs, found {}", least_runs,
                                                    most_runs, paths->size()));
    run = [paths, as_json] { return compare_runs(*paths, *as_json); };
  });
}

}  // namespace orthobatch::cli
