// Experiments changed by the command line, and written beside their runs.

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "experiment/experiment.h"

namespace orthobatch::experiment {
namespace {

using nlohmann::ordered_json;

bool matches_any(const std::vector<std::string>& patterns, const std::string& row) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return row_matches(pattern, row); });
}

bool matches_a_row(const std::string& pattern, const std::vector<ExperimentRow>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const ExperimentRow& row) { return row_matches(pattern, row.name); });
}

/// A figure whose rows are all left out goes with them.
void drop_empty_figures(Experiment& experiment) {
  auto& figures = experiment.figures;
  for (ExperimentFigure& figure : figures) {
    auto& patterns = figure.rows;
    patterns.erase(
        std::remove_if(patterns.begin(), patterns.end(),
                       [&](const std::string& p) { return !matches_a_row(p, experiment.rows); }),
        patterns.end());
  }
  figures.erase(std::remove_if(figures.begin(), figures.end(),
                               [](const auto& f) { return f.rows.empty() && f.best == 0; }),
                figures.end());
}

/// So does a claim with all its pairs.
void drop_empty_claims(Experiment& experiment) {
  const auto is_left_out = [&](const std::string& name) {
    return std::none_of(experiment.rows.begin(), experiment.rows.end(),
                        [&](const ExperimentRow& row) { return row.name == name; });
  };
  for (ExperimentClaim& claim : experiment.claims)
    claim.pairs.erase(std::remove_if(claim.pairs.begin(), claim.pairs.end(),
                                     [&](const auto& pair) {
                                       return is_left_out(pair.first) || is_left_out(pair.second);
                                     }),
                      claim.pairs.end());
  auto& claims = experiment.claims;
  claims.erase(
      std::remove_if(claims.begin(), claims.end(), [](const auto& c) { return c.pairs.empty(); }),
      claims.end());
}

}  // namespace

void apply(const ExperimentChanges& changes, Experiment& experiment) {
  std::vector<std::string> names;
  for (const ExperimentRow& row : experiment.rows) names.push_back(row.name);
  for (const std::string& pattern : changes.rows)
    if (!matches_a_row(pattern, experiment.rows))
      throw std::invalid_argument(fmt::format("--rows: no row of {} matches '{}', expected {}{}",
                                              experiment.name, pattern, base::join_choices(names),
                                              base::suggestion(pattern, names)));
  std::vector<ExperimentRow> rows;
  for (ExperimentRow& row : experiment.rows) {
    if (!changes.rows.empty() && !matches_any(changes.rows, row.name)) continue;
    if (changes.epochs) row.config.epochs = *changes.epochs;
    if (changes.subset) row.config.subset = *changes.subset;
    if (!changes.head.empty()) row.config.net.head = run::parse_head(changes.head, "--head");
    if (!changes.padding.empty())
      row.config.net.padding = run::parse_padding(changes.padding, "--padding");
    if (changes.seeds) {
      row.seeds.clear();
      for (int64_t seed = 1; seed <= *changes.seeds; ++seed) row.seeds.push_back(seed);
    }
    rows.push_back(std::move(row));
  }
  experiment.rows = std::move(rows);
  drop_empty_figures(experiment);
  drop_empty_claims(experiment);
}

ordered_json to_json(const Experiment& experiment) {
  ordered_json out;
  out["title"] = experiment.title;
  std::string line;
  for (const char c : experiment.about) {
    if (c != '\n') {
      line += c;
      continue;
    }
    out["about"].push_back(line);
    line.clear();
  }
  out["data"] = experiment.rows.front().config.data;
  out["loss_share"] = experiment.loss_share;
  out["pictures"] = experiment.pictures;
  if (experiment.trend_to > 0) out["trend_to"] = experiment.trend_to;
  for (const ExperimentRow& row : experiment.rows) {
    ordered_json r = {{"name", row.name}, {"epochs", row.config.epochs}, {"seeds", row.seeds}};
    if (!row.note.empty()) r["note"] = row.note;
    const PaperResult& paper = row.paper;
    if (paper.error_percent) r["paper"]["error_percent"] = *paper.error_percent;
    if (paper.loss) r["paper"]["loss"] = *paper.loss;
    if (paper.epoch) r["paper"]["epoch"] = *paper.epoch;
    ordered_json config = to_json(row.config);
    r["blocks"] = config.at("blocks");
    for (const char* key : {"data", "epochs", "seed", "threads", "blocks"}) config.erase(key);
    r["settings"] = config;
    out["rows"].push_back(r);
  }
  for (const ExperimentFigure& figure : experiment.figures) {
    ordered_json f = {{"title", figure.title}};
    if (figure.best > 0)
      f["best"] = figure.best;
    else
      f["rows"] = figure.rows;
    out["figures"].push_back(f);
  }
  for (const ExperimentClaim& claim : experiment.claims) {
    ordered_json c = {{"claim", claim.text}, {"of", to_string(claim.figure)}};
    if (claim.within > 0) c["within"] = claim.within;
    for (const auto& [first, second] : claim.pairs)
      c["pairs"].push_back(ordered_json::array({first, second}));
    out["claims"].push_back(c);
  }
  return out;
}

}  // namespace orthobatch::experiment
