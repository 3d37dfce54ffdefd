#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "experiment/trend.h"
#include "orthobatch/version.h"
#include "report/summary.h"
#include "report/tables.h"

namespace orthobatch::report {
namespace {

using nlohmann::ordered_json;

ordered_json rounded(double x) { return six_digits(x); }
ordered_json rounded(const std::optional<double>& x) { return x ? rounded(*x) : ordered_json(); }

ordered_json estimate_json(const experiment::Estimate& e) {
  if (e.n == 0) return nullptr;
  return {{"mean", rounded(e.mean)}, {"deviation", rounded(e.deviation)}, {"n", e.n}};
}

/// Columns in place of records: a name once, not once an epoch.
template <typename Get>
ordered_json column(const std::vector<run::EpochRecord>& epochs, const Get& get) {
  ordered_json out = ordered_json::array();
  for (const run::EpochRecord& e : epochs) out.push_back(rounded(get(e)));
  return out;
}

ordered_json layers_json(const std::vector<run::EpochRecord>& epochs) {
  ordered_json out = ordered_json::array();
  const size_t count = epochs.empty() ? 0 : epochs.front().layers.size();
  for (size_t i = 0; i < count; ++i) {
    const auto of_layer = [&](const auto& get) {
      return column(epochs, [&](const run::EpochRecord& e) -> std::optional<double> {
        return i < e.layers.size() ? get(e.layers[i]) : std::nullopt;
      });
    };
    using Number = std::optional<double>;
    const run::LayerRecord& first = epochs.front().layers[i];
    out.push_back(
        {{"name", first.name},
         {"channels", first.channels},
         {"condition", of_layer([](const run::LayerRecord& l) { return l.condition_number; })},
         {"rank", of_layer([](const run::LayerRecord& l) { return l.effective_rank; })},
         {"floored", of_layer([](const run::LayerRecord& l) { return Number(l.floored); })},
         {"null", of_layer([](const run::LayerRecord& l) { return Number(l.null); })},
         {"exchanges", of_layer([](const run::LayerRecord& l) { return Number(l.exchanges); })}});
  }
  return out;
}

ordered_json run_json(const run::RunRecord& run) {
  const auto& epochs = run.epochs;
  ordered_json out = {{"seed", run.seed}, {"threads", run.threads}, {"epochs", run.epochs_wanted}};
  if (!run.problems.empty() && run.there) out["problems"] = run.problems;
  if (!run.failed.empty()) out["failed"] = run.failed;
  if (!run.stopped_early.empty()) out["stopped_early"] = run.stopped_early;
  if (run.diverged)
    out["diverged"] = {{"epoch", run.diverged->epoch}, {"reason", run.diverged->reason}};
  using E = run::EpochRecord;
  double total = 0;
  out["epoch"] = column(epochs, [](const E& e) { return static_cast<double>(e.epoch); });
  out["steady"] = run.steady();
  out["seconds"] = column(epochs, [&](const E& e) { return total += e.time.train_seconds; });
  out["test_error"] = column(epochs, [](const E& e) { return e.test.error_percent; });
  out["test_loss"] = column(epochs, [](const E& e) { return e.test.loss; });
  out["train_error"] = column(epochs, [](const E& e) { return e.train_error_percent; });
  out["train_loss"] = column(epochs, [](const E& e) { return e.train_loss; });
  out["curve"] = ordered_json::array();
  for (const E& e : epochs) {
    ordered_json points = ordered_json::array();
    for (const double loss : e.curve) points.push_back(rounded(loss));
    out["curve"].push_back(points);
  }
  out["learning_rate"] = column(epochs, [](const E& e) { return e.settings.learning_rate; });
  out["batch"] = column(epochs, [](const E& e) { return static_cast<double>(e.settings.batch); });
  out["layers"] = layers_json(epochs);
  return out;
}

ordered_json row_json(const experiment::RowResult& row, int rank, int paper_rank) {
  ordered_json out = {{"name", row.row.name}, {"status", experiment::status_text(row.status)}};
  if (!row.remark.empty()) out["remark"] = row.remark;
  if (!row.row.note.empty()) out["note"] = row.row.note;
  const experiment::PaperResult& paper = row.row.paper;
  if (paper.error_percent)
    out["paper"] = {{"error", *paper.error_percent},
                    {"loss", rounded(paper.loss)},
                    {"epoch", paper.epoch ? ordered_json(*paper.epoch) : ordered_json()},
                    {"rank", paper_rank}};
  out["rank"] = rank;
  out["best_error"] = estimate_json(row.best_error);
  out["best_loss"] = estimate_json(row.best_loss);
  out["best_epoch"] = estimate_json(row.best_epoch);
  out["last_error"] = estimate_json(row.last_error);
  out["last_loss"] = estimate_json(row.last_loss);
  out["train_error"] = estimate_json(row.train_error);
  out["epoch_seconds"] = row.epoch_seconds > 0 ? rounded(row.epoch_seconds) : ordered_json();
  out["times_bn"] = rounded(row.times_bn);
  out["runs"] = ordered_json::array();
  for (const run::RunRecord& run : row.runs) out["runs"].push_back(run_json(run));
  return out;
}

ordered_json figures_json(const experiment::ExperimentResult& result) {
  ordered_json out = ordered_json::array();
  const std::vector<int> places = experiment::ranks_of(experiment::our_errors(result));
  for (const experiment::ExperimentFigure& figure : result.experiment.figures) {
    std::vector<size_t> rows;
    for (size_t i = 0; i < result.rows.size(); ++i) {
      const bool named =
          std::any_of(figure.rows.begin(), figure.rows.end(), [&](const std::string& p) {
            return experiment::row_matches(p, result.rows[i].row.name);
          });
      if (named || (figure.best > 0 && places[i] > 0 && places[i] <= figure.best))
        rows.push_back(i);
    }
    if (!rows.empty()) out.push_back({{"title", figure.title}, {"rows", rows}});
  }
  return out;
}

/// Error against images: points with their range over seeds, and the ends of a line.
ordered_json trend_json(const experiment::ExperimentResult& result) {
  const double to = static_cast<double>(result.experiment.trend_to);
  ordered_json layers = ordered_json::array();
  for (const experiment::Trend& trend : experiment::trends_of(result.rows)) {
    if (!trend.line) continue;
    ordered_json images, errors, deviations;
    for (const experiment::Trend::Point& p : trend.points) {
      images.push_back(rounded(p.images));
      errors.push_back(rounded(p.error.mean));
      deviations.push_back(rounded(p.error.deviation.value_or(0)));
    }
    const double from = trend.points.front().images;
    layers.push_back({{"name", trend.layer},
                      {"row", trend.points.back().row},
                      {"images", images},
                      {"error", errors},
                      {"deviation", deviations},
                      {"line", {rounded(trend.line->at(from)), rounded(trend.line->at(to))}}});
  }
  return {{"to", rounded(to)}, {"layers", layers}};
}

ordered_json experiment_json(const experiment::ExperimentResult& result) {
  const experiment::Experiment& e = result.experiment;
  ordered_json out = {{"name", e.name}, {"title", e.title}};
  if (!result.rows.empty()) out["data"] = result.rows.front().row.config.data;
  out["pictures"] = e.pictures;
  out["loss_share"] = rounded(e.loss_share);
  for (const experiment::RowResult& row : result.rows)
    for (const run::RunRecord& run : row.runs)
      if (run.train_images > 0 && !out.contains("train_images")) {
        out["train_images"] = run.train_images;
        out["test_images"] = run.test_images;
      }
  if (!result.made.is_null()) out["made"] = result.made;
  const experiment::Errors ours = experiment::our_errors(result),
                           papers = experiment::paper_errors(result);
  const std::vector<int> places = experiment::ranks_of(ours),
                         paper_places = experiment::ranks_of(papers);
  out["rank_correlation"] = rounded(experiment::rank_correlation(ours, papers));
  out["rows"] = ordered_json::array();
  for (size_t i = 0; i < result.rows.size(); ++i)
    out["rows"].push_back(row_json(result.rows[i], places[i], paper_places[i]));
  out["figures"] = figures_json(result);
  if (e.trend_to > 0) out["trend"] = trend_json(result);
  if (!result.verdict.pairs.empty())
    out["verdict"] = {{"answer", answer_text(result.verdict)}, {"layers", result.verdict.layers}};
  for (const experiment::ClaimResult& c : result.claims)
    out["claims"].push_back({{"claim", c.claim.text}, {"answer", to_string(c.answer)}});
  out["tables"] = {{"results", to_json(result_table(result))},
                   {"verdict", to_json(verdict_table(result))},
                   {"claims", to_json(claims_table(result))}};
  return out;
}

}  // namespace

std::string to_text(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json to_json(const std::vector<experiment::ExperimentResult>& results) {
  ordered_json out = {{"orthobatch", ORTHOBATCH_VERSION},
                      {"steady_ratio", run::steady_ratio},
                      {"experiments", ordered_json::array()}};
  for (const experiment::ExperimentResult& result : results)
    out["experiments"].push_back(experiment_json(result));
  if (const Table answers = answers_table(results); !answers.rows.empty())
    out["claims"] = to_json(answers);
  return out;
}

}  // namespace orthobatch::report
