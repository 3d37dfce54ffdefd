#include "experiment/experiment.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "embedded/paper_experiments.h"
#include "io/file.h"
#include "io/json.h"
#include "io/json_fields.h"
#include "orthobatch/spec.h"
#include "run/epoch_record.h"
#include "run/names.h"

namespace orthobatch::experiment {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* suffix = ".json";

const io::Names<ClaimFigure> claim_figures = {{ClaimFigure::best_error, "best_error"},
                                              {ClaimFigure::first_error, "first_error"},
                                              {ClaimFigure::train_loss, "train_loss"},
                                              {ClaimFigure::epochs_to_best, "epochs_to_best"}};

/// "ZCA_corr->W" of "ZCA_corr(0)->W"
std::string without_arguments(const std::string& row) {
  std::string out;
  int depth = 0;
  for (const char c : row) {
    if (c == '(') ++depth;
    if (depth == 0) out += c;
    if (c == ')' && depth > 0) --depth;
  }
  return out;
}

std::vector<uint64_t> read_seeds(const json& list, const io::JsonFields& at) {
  std::vector<uint64_t> seeds;
  for (const json& seed : list) {
    constexpr uint64_t largest = std::numeric_limits<int64_t>::max();
    if (!seed.is_number_unsigned() || seed.get<uint64_t>() > largest)
      at.fail(fmt::format("seeds: expected a list of integers, 0 to {}", largest), list);
    seeds.push_back(seed.get<uint64_t>());
  }
  if (seeds.empty() || std::set<uint64_t>(seeds.begin(), seeds.end()).size() != seeds.size())
    at.fail("seeds: expected one or more, each once", list);
  return seeds;
}

std::vector<std::string> read_texts(const json& list, const char* key, const io::JsonFields& at) {
  std::vector<std::string> texts;
  for (const json& text : list) {
    if (!text.is_string()) at.fail(fmt::format("{}: expected a list of texts", key), list);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

/// Settings are a part of a run's config; the rest of it has its own place.
void check_settings(const json& settings, const std::string& where) {
  constexpr std::pair<const char*, const char*> places[] = {
      {"data", "the experiment has one \"data\", beside \"rows\""},
      {"layer", "each row has its own"},
      {"blocks", "each row has its own"},
      {"epochs", "it stands beside \"settings\""},
      {"seed", "\"seeds\" stands beside \"settings\""},
      {"threads", "reproduce takes it as --threads"}};
  for (const auto& [key, place] : places)
    if (settings.contains(key))
      throw std::invalid_argument(fmt::format("{}: expected no '{}' here ({}), found {}", where,
                                              key, place, settings.at(key).dump()));
}

PaperResult read_paper(const json& object, const std::string& where) {
  io::JsonFields fields(object, where);
  PaperResult paper;
  double error = -1, loss = -1;
  int64_t epoch = -1;
  fields.number("error_percent", error);
  fields.number("loss", loss);
  fields.integer("epoch", epoch);
  fields.refuse_others();
  if (error > 100) fields.fail("error_percent: expected 0 to 100", error);
  if (error >= 0) paper.error_percent = error;
  if (loss >= 0) paper.loss = loss;
  if (epoch >= 0) paper.epoch = epoch;
  return paper;
}

/// The name of an experiment that is a file: it goes into the report, which is UTF-8.
std::string name_in_utf8(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  try {
    (void)json(name).dump();
  } catch (const json::type_error&) {
    throw std::invalid_argument("experiment: expected a file whose name is UTF-8, found '" + path +
                                "'");
  }
  return name;
}

/// What rows inherit from the experiment.
struct Defaults {
  std::string data = "mnist";
  int64_t epochs = 25;
  std::vector<uint64_t> seeds = {1};
  json settings = json::object();
};

ExperimentRow read_row(const json& object, const std::string& where, const Defaults& defaults) {
  io::JsonFields fields(object, where);
  ExperimentRow row;
  json config = defaults.settings;
  std::string layer;
  int64_t epochs = defaults.epochs;
  fields.text("layer", layer);
  fields.text("name", row.name);
  fields.text("note", row.note);
  fields.integer("epochs", epochs);
  if (const json* settings = fields.object("settings")) {
    check_settings(*settings, fields.path("settings"));
    config.merge_patch(*settings);
  }
  const json* blocks = fields.array("blocks");
  row.seeds = defaults.seeds;
  if (const json* seeds = fields.array("seeds")) row.seeds = read_seeds(*seeds, fields);
  if (const json* paper = fields.object("paper"))
    row.paper = read_paper(*paper, fields.path("paper"));
  fields.refuse_others();
  if (layer.empty() && !blocks) fields.fail("expected a \"layer\" or \"blocks\"", object);

  config["data"] = defaults.data;
  config["epochs"] = epochs;
  if (!layer.empty()) config["layer"] = layer;
  if (blocks) config["blocks"] = *blocks;
  row.config = run::config_from_json(config, where);
  try {
    run::check_config(row.config);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", where, error.what()));
  }
  if (row.name.empty()) row.name = run::layers_text(row.config);
  return row;
}

ExperimentFigure read_figure(const json& object, const std::string& where,
                             const std::vector<ExperimentRow>& rows) {
  io::JsonFields fields(object, where);
  ExperimentFigure figure;
  fields.text("title", figure.title);
  fields.integer("best", figure.best);
  if (const json* patterns = fields.array("rows"))
    figure.rows = read_texts(*patterns, "rows", fields);
  fields.refuse_others();
  if (figure.title.empty()) fields.fail("expected a \"title\"", object);
  if (figure.rows.empty() == (figure.best == 0))
    fields.fail("expected either \"rows\" or \"best\"", object);
  for (const std::string& pattern : figure.rows)
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const ExperimentRow& row) { return row_matches(pattern, row.name); }))
      fields.fail("rows: expected patterns that match a row", pattern);
  return figure;
}

/// The row that a claim names, as its file wrote the spec or in full.
std::string named_row(const std::string& name, const std::vector<ExperimentRow>& rows,
                      const io::JsonFields& at) {
  std::string in_full = name;
  try {
    in_full = to_string(parse(name));
  } catch (const SpecError&) {
    // a row with a name of its own
  }
  for (const ExperimentRow& row : rows)
    if (row.name == name || row.name == in_full) return row.name;
  at.fail("pairs: expected names of rows", name);
}

ExperimentClaim read_claim(const json& object, const std::string& where,
                           const std::vector<ExperimentRow>& rows) {
  io::JsonFields fields(object, where);
  ExperimentClaim claim;
  std::string figure = to_string(claim.figure);
  fields.text("claim", claim.text);
  fields.text("of", figure);
  fields.number("within", claim.within);
  const json* pairs = fields.array("pairs");
  fields.refuse_others();
  claim.figure = io::choice_of(figure, claim_figures, fields.path("of"));
  if (claim.text.empty()) fields.fail("expected a \"claim\", its text", object);
  if (!(claim.within >= 0)) fields.fail("within: expected a number from 0", claim.within);
  if (!pairs || pairs->empty()) fields.fail("expected \"pairs\", one or more", object);
  for (const json& pair : *pairs) {
    const std::vector<std::string> names =
        pair.is_array() ? read_texts(pair, "pairs", fields) : std::vector<std::string>();
    if (names.size() != 2 || names[0] == names[1])
      fields.fail("pairs: expected pairs of two rows", pair);
    claim.pairs.emplace_back(named_row(names[0], rows, fields), named_row(names[1], rows, fields));
  }
  return claim;
}

/// Two rows of one name, or of names that make the same folder, would share their runs.
void check_names(const std::vector<ExperimentRow>& rows, const std::string& source) {
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [other, fresh] = seen.emplace(run::run_name("", rows[i].name, 0), i);
    if (!fresh)
      throw std::invalid_argument(fmt::format(
          "{}: rows[{}]: expected a name of its own (\"name\"), found '{}', whose runs would be in "
          "the folders of rows[{}], '{}'",
          source, i, rows[i].name, other->second, rows[other->second].name));
  }
}

}  // namespace

std::string to_string(ClaimFigure figure) { return io::name_of(figure, claim_figures); }

std::string run_folder_path(const std::string& out, const ExperimentRow& row, uint64_t seed) {
  return io::join_path(io::join_path(out, run::runs_name),
                       run::run_name(row.config.data, row.name, seed));
}

bool row_matches(const std::string& pattern, const std::string& row) {
  return ::fnmatch(pattern.c_str(), row.c_str(), 0) == 0 ||
         ::fnmatch(pattern.c_str(), without_arguments(row).c_str(), 0) == 0;
}

Experiment experiment_from_json(const json& object, const std::string& name,
                                const std::string& source) {
  io::JsonFields fields(object, source);
  Experiment experiment;
  Defaults defaults;
  experiment.name = experiment.title = name;
  fields.text("title", experiment.title);
  if (const json* about = fields.array("about"))
    for (const std::string& line : read_texts(*about, "about", fields))
      experiment.about += line + "\n";
  fields.text("data", defaults.data);
  fields.integer("epochs", defaults.epochs);
  fields.number("loss_share", experiment.loss_share);
  fields.flag("pictures", experiment.pictures);
  fields.integer("trend_to", experiment.trend_to, {0, run::most_images});
  fields.ignore("made");
  if (const json* seeds = fields.array("seeds")) defaults.seeds = read_seeds(*seeds, fields);
  if (const json* settings = fields.object("settings")) {
    check_settings(*settings, fields.path("settings"));
    defaults.settings = *settings;
  }
  const json* rows = fields.array("rows");
  const json* figures = fields.array("figures");
  const json* claims = fields.array("claims");
  fields.refuse_others();
  if (!(experiment.loss_share > 0))
    fields.fail("loss_share: expected a number above 0", experiment.loss_share);
  if (!rows || rows->empty())
    fields.fail("rows: expected a list of one or more", rows ? *rows : json());
  for (size_t i = 0; i < rows->size(); ++i)
    experiment.rows.push_back(
        read_row((*rows)[i], fmt::format("{}: rows[{}]", source, i), defaults));
  check_names(experiment.rows, source);
  for (size_t i = 0; figures && i < figures->size(); ++i)
    experiment.figures.push_back(
        read_figure((*figures)[i], fmt::format("{}: figures[{}]", source, i), experiment.rows));
  for (size_t i = 0; claims && i < claims->size(); ++i)
    experiment.claims.push_back(
        read_claim((*claims)[i], fmt::format("{}: claims[{}]", source, i), experiment.rows));
  if (experiment.figures.empty()) experiment.figures = {{"All rows", {"*"}, 0}};
  return experiment;
}

std::vector<std::string> experiment_names() {
  std::vector<std::string> names;
  for (const io::EmbeddedFile& file : io::embedded_paper_experiments)
    names.push_back(std::filesystem::path(file.name).stem().string());
  return names;
}

Experiment find_experiment(const std::string& name) {
  for (const io::EmbeddedFile& file : io::embedded_paper_experiments)
    if (file.name == name + suffix)
      return experiment_from_json(io::parse_json(file.text, name), name, name);
  if (!io::file_exists(name))
    throw std::invalid_argument(fmt::format("experiment: expected {} or a file, found '{}'{}",
                                            base::join_choices(experiment_names()), name,
                                            base::suggestion(name, experiment_names())));
  return experiment_from_json(io::parse_json(io::read_input(name), name), name_in_utf8(name), name);
}

}  // namespace orthobatch::experiment
