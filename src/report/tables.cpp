#include "report/tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace orthobatch::report {
namespace {

using Number = std::optional<double>;

Cell estimate_cell(const experiment::Estimate& e, int digits, const std::string& look = "") {
  if (e.n == 0) return {};
  const auto number = [&](double x) {
    return std::abs(x) < 1e6 ? fmt::format("{:.{}f}", x, digits) : fmt::format("{:.3g}", x);
  };
  return {number(e.mean) + (e.deviation ? " ± " + number(*e.deviation) : ""), e.mean, look};
}

Cell number_cell(const Number& x, int digits, const std::string& look = "") {
  return x ? Cell{fmt::format("{:.{}f}", *x, digits), x, look} : Cell{};
}

Cell signed_cell(const Number& x, int digits, const std::string& look = "") {
  return x ? Cell{fmt::format("{:+.{}f}", *x, digits), x, look} : Cell{};
}

Cell place_cell(int place, const std::string& look = "") {
  return place > 0 ? Cell{std::to_string(place), place, look} : Cell{};
}

Cell name_cell(const experiment::ExperimentResult& result, size_t row) {
  return {result.rows[row].row.name, std::nullopt, "", row};
}

/// A row's loss, over the outputs where the paper seems to count it so.
experiment::Estimate shared_loss(const experiment::RowResult& row, double share) {
  experiment::Estimate loss = row.best_loss;
  loss.mean /= share;
  if (loss.deviation) *loss.deviation /= share;
  return loss;
}

std::string remark_of(const experiment::RowResult& row) {
  std::string remark = row.remark;
  for (const run::RunRecord& run : row.runs)
    if (run.there && !run.problems.empty())
      remark += (remark.empty() ? "" : "; ") + run.problems.front();
  return remark;
}

/// The error; of a row without one, what came of it.
Cell outcome_cell(const experiment::RowResult& row) {
  if (row.best_error.n > 0) return estimate_cell(row.best_error, 2, "main");
  return {remark_of(row), std::nullopt,
          fmt::format("badge {}", experiment::status_text(row.status))};
}

/// The paper has a loss for SVHN, an epoch for MNIST.
Cell second_of_paper(const experiment::PaperResult& paper, double share) {
  if (share != 1) return number_cell(paper.loss, 4, "paper");
  return paper.epoch ? number_cell(static_cast<double>(*paper.epoch), 0, "paper") : Cell{};
}

Number to_paper(const experiment::RowResult& row) {
  if (row.best_error.n == 0 || !row.row.paper.error_percent) return std::nullopt;
  return row.best_error.mean - *row.row.paper.error_percent;
}

Number noise_of_pair(const std::optional<experiment::MeanDifference>& difference, double noise) {
  return difference && difference->standard_error ? Number(noise) : std::nullopt;
}

Number value_of(const std::optional<experiment::MeanDifference>& difference) {
  return difference ? Number(difference->value) : std::nullopt;
}

const char* name_of(experiment::ClaimFigure figure) {
  constexpr const char* names[] = {"best error %", "error % after epoch 1",
                                   "training loss of the last epoch",
                                   "epochs until the second's best error"};
  return names[static_cast<size_t>(figure)];
}

Cell answer_cell(experiment::Answer answer) {
  constexpr const char* looks[] = {"badge sure", "badge diverged", "badge unsure"};
  return {to_string(answer), std::nullopt, looks[static_cast<size_t>(answer)]};
}

}  // namespace

Table result_table(const experiment::ExperimentResult& result) {
  const auto& rows = result.rows;
  Table table{result.experiment.name, {}, std::vector<std::vector<Cell>>(rows.size())};
  const auto add = [&](const Column& column, const auto& cell) {
    table.columns.push_back(column);
    for (size_t i = 0; i < rows.size(); ++i) table.rows[i].push_back(cell(i));
  };
  const double share = result.experiment.loss_share;
  const std::string loss = share != 1 ? fmt::format("loss/{:g}", share) : "loss";
  const bool with_paper = std::any_of(rows.begin(), rows.end(), [](const experiment::RowResult& r) {
    return r.row.paper.error_percent.has_value();
  });
  const std::vector<int> places = experiment::ranks_of(experiment::our_errors(result));
  const std::vector<int> paper_places = experiment::ranks_of(experiment::paper_errors(result));

  add({"layer", "layer"}, [&](size_t i) { return name_cell(result, i); });
  if (with_paper) {
    add({"paper %", "error %", "paper"},
        [&](size_t i) { return number_cell(rows[i].row.paper.error_percent, 2, "paper"); });
    add({share != 1 ? "paper " + loss : "at epoch", share != 1 ? loss : "epoch", "paper"},
        [&](size_t i) { return second_of_paper(rows[i].row.paper, share); });
    add({"place", "place", "paper"},
        [&](size_t i) { return place_cell(paper_places[i], "paper"); });
  }
  add({"best %", "best error %", "here"}, [&](size_t i) { return outcome_cell(rows[i]); });
  if (with_paper)
    add({"", "to paper", "here"},
        [&](size_t i) { return signed_cell(to_paper(rows[i]), 2, "sign"); });
  add({"at epoch", "at epoch", "here"}, [&](size_t i) {
    return estimate_cell({rows[i].best_epoch.n, rows[i].best_epoch.mean, std::nullopt}, 0);
  });
  add({loss, loss, "here"},
      [&](size_t i) { return estimate_cell(shared_loss(rows[i], share), 4); });
  add({"place", "place", "here"}, [&](size_t i) { return place_cell(places[i]); });
  add({"", "train error %", "here"},
      [&](size_t i) { return estimate_cell(rows[i].train_error, 2); });
  add({"last %", "last error %", "here"},
      [&](size_t i) { return estimate_cell(rows[i].last_error, 2); });
  add({"s/epoch", "s / epoch", "time"}, [&](size_t i) {
    const double seconds = rows[i].epoch_seconds;
    return seconds > 0 ? number_cell(seconds, seconds < 10 ? 1 : 0) : Cell{};
  });
  add({"× BN", "× BN", "time"}, [&](size_t i) { return number_cell(rows[i].times_bn, 2); });
  const auto remark = [&](size_t i) {
    return Cell{rows[i].best_error.n > 0 ? remark_of(rows[i]) : ""};
  };
  bool remarks = false;
  for (size_t i = 0; i < rows.size(); ++i) remarks |= !remark(i).text.empty();
  if (remarks) add({"remark", ""}, remark);
  return table;
}

Table verdict_table(const experiment::ExperimentResult& result) {
  Table table{"verdict", {}, {}};
  for (const char* name : {"layer", "printed %", "exact %", "exact − printed", "noise up to",
                           "place in the paper", "place printed", "place exact", "difference"})
    table.columns.push_back({name, name});
  for (const experiment::GradientPair& p : result.verdict.pairs) {
    Cell noise = number_cell(noise_of_pair(p.difference, p.noise), 2), verdict{""};
    if (p.judged() && !p.difference->own_deviation) noise.text += " *";
    if (p.difference)
      verdict = {p.beyond_noise() ? "beyond noise"
                 : p.judged()     ? "within noise"
                                  : "one seed",
                 std::nullopt, p.beyond_noise() ? "badge sure" : "badge unsure"};
    table.rows.push_back({name_cell(result, p.exact_row), outcome_cell(result.rows[p.printed_row]),
                          outcome_cell(result.rows[p.exact_row]),
                          signed_cell(value_of(p.difference), 2, "bar"), noise,
                          place_cell(p.rank_paper), place_cell(p.rank_printed),
                          place_cell(p.rank_exact, p.moves() ? "main" : ""), verdict});
  }
  return table;
}

Table answers_table(const std::vector<experiment::ExperimentResult>& results) {
  Table table{"claims", {{"claim of the paper", "claim of the paper"}}, {}};
  std::vector<std::string> data;    // of each column but the first
  std::vector<std::string> claims;  // of each line
  const auto place_of = [](const std::string& name, std::vector<std::string>& names) {
    const size_t place = std::find(names.begin(), names.end(), name) - names.begin();
    if (place == names.size()) names.push_back(name);
    return place;
  };
  for (const experiment::ExperimentResult& result : results)
    for (const experiment::ClaimResult& claim : result.claims) {
      const size_t column = 1 + place_of(result.rows.front().row.config.data, data);
      const size_t line = place_of(claim.claim.text, claims);
      if (column == table.columns.size()) table.columns.push_back({data.back(), data.back()});
      if (line == table.rows.size())
        table.rows.push_back(
            {{fmt::format("{} ({})", claim.claim.text, name_of(claim.claim.figure))}});
      std::vector<Cell>& cells = table.rows[line];
      cells.resize(std::max(cells.size(), column + 1));
      if (cells[column].look.empty()) cells[column] = answer_cell(claim.answer);
    }
  for (std::vector<Cell>& cells : table.rows) cells.resize(table.columns.size());
  return table;
}

Table claims_table(const experiment::ExperimentResult& result) {
  Table table{result.experiment.name + "-claims", {}, {}};
  for (const char* name : {"claim of the paper", "first", "its figure", "second", "its figure",
                           "first − second", "noise up to", "in the paper", "answer"})
    table.columns.push_back({name, name});
  for (const experiment::ClaimResult& claim : result.claims)
    for (const experiment::ClaimPair& p : claim.pairs) {
      const bool leads = &p == claim.pairs.data();
      const int digits = claim.claim.figure == experiment::ClaimFigure::train_loss       ? 3
                         : claim.claim.figure == experiment::ClaimFigure::epochs_to_best ? 1
                                                                                         : 2;
      const std::string text = fmt::format("{} ({}): {}", claim.claim.text,
                                           name_of(claim.claim.figure), to_string(claim.answer));
      table.rows.push_back({{leads ? text : "", std::nullopt, leads ? "claim" : ""},
                            name_cell(result, p.first),
                            estimate_cell(p.first_figure, digits),
                            name_cell(result, p.second),
                            estimate_cell(p.second_figure, digits),
                            signed_cell(value_of(p.difference), digits, "bar"),
                            number_cell(noise_of_pair(p.difference, p.noise), digits),
                            signed_cell(p.paper, 2, "paper"),
                            answer_cell(p.answer)});
    }
  return table;
}

}  // namespace orthobatch::report
