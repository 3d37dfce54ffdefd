#include "report/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "orthobatch/spec.h"

namespace orthobatch {
namespace {

std::optional<LayerSpec> spec_of(const std::string& text) {
  try {
    return parse(text);
  } catch (const SpecError&) {
    return std::nullopt;  // a row with a name of its own
  }
}

bool diverged(const RowResult& row) { return row.status == RowResult::Status::diverged; }

/// What a row is placed by: one that diverged comes after all that did not, one in the middle of
/// its training has no place yet.
std::optional<double> error_of(const RowResult& row) {
  if (diverged(row)) return std::numeric_limits<double>::infinity();
  if (!row.finished) return std::nullopt;
  return row.best_error.mean;
}

/// Those that diverged share the last place.
std::vector<int> places(const Errors& errors, int layers) {
  std::vector<int> out = ranks(errors);
  for (size_t i = 0; i < errors.size(); ++i)
    if (errors[i] && std::isinf(*errors[i])) out[i] = layers;
  return out;
}

constexpr double significance = 0.05;

/// Deviation over seeds, and its degrees of freedom.
struct Spread {
  double deviation = 0;
  int freedom = 0;
};

/// From all rows that have two seeds or more.
Spread pooled_spread(const std::vector<RowResult>& rows) {
  double squares = 0;
  int freedom = 0;
  for (const RowResult& row : rows)
    if (row.finished && row.best_error.deviation) {
      squares += *row.best_error.deviation * *row.best_error.deviation * (row.best_error.n - 1);
      freedom += row.best_error.n - 1;
    }
  return {freedom > 0 ? std::sqrt(squares / freedom) : 0, freedom};
}

/// Variance of one row's mean, and the degrees of freedom it is known with.
struct MeanVariance {
  double variance = 0;
  int freedom = 0;
  bool borrowed = false;
};

MeanVariance variance_of_mean(const Estimate& e, const Spread& pooled) {
  if (e.deviation) return {*e.deviation * *e.deviation / e.n, e.n - 1, false};
  return {pooled.deviation * pooled.deviation / e.n, pooled.freedom, true};
}

/// Welch and Satterthwaite's: the two deviations need not be equal. One that is borrowed shares
/// data with the other, so that together they know no more than what was borrowed.
double degrees_of_freedom(const MeanVariance& a, const MeanVariance& b) {
  const double most =
      a.borrowed || b.borrowed ? std::max(a.freedom, b.freedom) : a.freedom + b.freedom;
  const double sum = a.variance + b.variance;
  if (sum == 0) return most;
  return std::min(
      most,
      sum * sum / (a.variance * a.variance / a.freedom + b.variance * b.variance / b.freedom));
}

void compare(GradientPair& pair, const std::vector<RowResult>& rows, const Spread& pooled) {
  if (!rows[pair.exact_row].finished || !rows[pair.printed_row].finished) return;
  const Estimate& exact = rows[pair.exact_row].best_error;
  const Estimate& printed = rows[pair.printed_row].best_error;
  pair.difference = exact.mean - printed.mean;
  const MeanVariance a = variance_of_mean(exact, pooled), b = variance_of_mean(printed, pooled);
  pair.own_deviation = !a.borrowed && !b.borrowed;
  if (a.freedom == 0 || b.freedom == 0) return;
  pair.freedom = degrees_of_freedom(a, b);
  pair.standard_error = std::sqrt(a.variance + b.variance);
}

std::string outcome_text(const RowResult& row) {
  if (!row.finished) return row.remark.empty() ? "no result" : row.remark;
  std::string text = fmt::format("{:.2f} %", row.best_error.mean);
  if (row.best_error.deviation) text += fmt::format(" (± {:.2f})", *row.best_error.deviation);
  return text;
}

std::string sentence(const GradientPair& p, const GradientVerdict& verdict,
                     const std::vector<RowResult>& rows) {
  const RowResult &exact = rows[p.exact_row], &printed = rows[p.printed_row];
  std::string text = fmt::format("{}: {} with the printed gradient, {} with the exact one", p.layer,
                                 outcome_text(printed), outcome_text(exact));
  if (p.rank_exact == 0) return text + "; nothing to compare.";
  if (p.difference) text += fmt::format(", a difference of {:+.2f} points", *p.difference);
  if (p.standard_error)
    text += fmt::format(" where noise may make {:.2f}{}: {}", p.noise,
                        p.own_deviation ? "" : " (deviation borrowed from rows with several seeds)",
                        p.beyond_noise() ? "beyond noise" : "within noise");
  else if (p.difference)
    text += ", of one seed each: whether it is noise cannot be said";
  text += p.rank_exact == p.rank_printed
              ? fmt::format(". Place {} of {} with either", p.rank_exact, verdict.layers)
              : fmt::format(". From place {} to place {} of {}", p.rank_printed, p.rank_exact,
                            verdict.layers);
  if (p.rank_paper > 0) text += fmt::format(" (place {} in the paper)", p.rank_paper);
  return text + ".";
}

std::string range_text(double low, double high) {
  const std::string a = fmt::format("{:.1f}", low), b = fmt::format("{:.1f}", high);
  return a == b ? a : a + " to " + b;
}

std::string answer(const GradientVerdict& verdict) {
  int compared = 0, judged = 0, moved = 0, sure = 0, better = 0;
  std::string moved_surely;
  double least_noise = std::numeric_limits<double>::infinity(), most_noise = 0;
  for (const GradientPair& p : verdict.pairs) {
    if (p.rank_exact == 0) continue;
    ++compared;
    const bool moves = p.rank_exact != p.rank_printed;
    judged += p.standard_error.has_value();
    moved += moves;
    sure += p.beyond_noise();
    better += p.beyond_noise() && *p.difference < 0;
    if (p.standard_error && !p.beyond_noise()) {
      least_noise = std::min(least_noise, p.noise);
      most_noise = std::max(most_noise, p.noise);
    }
    if (moves && (p.beyond_noise() || p.one_diverged))
      moved_surely += fmt::format("{}{} ({} → {})", moved_surely.empty() ? "" : ", ", p.layer,
                                  p.rank_printed, p.rank_exact);
  }
  if (compared == 0) return "No layer has a result with both gradients yet.";
  const std::string places = fmt::format("the place of {} of {} layers changes", moved, compared);
  if (judged == 0 && moved_surely.empty())
    return fmt::format("Not known: {}, but no row has two seeds to tell noise by.", places);
  std::string differences = fmt::format(
      "{} of {} differences in error are beyond noise, {} in favour of the exact gradient", sure,
      judged, better);
  if (sure < judged)
    differences += fmt::format("; in the others noise alone may make {} points",
                               range_text(least_noise, most_noise));
  if (moved == 0) return fmt::format("No: {}; {}.", places, differences);
  if (moved_surely.empty())
    return fmt::format("Not measurably: {}, none by a difference in error beyond noise; {}.",
                       places, differences);
  return fmt::format("Yes, for some: {}, beyond noise {}; {}.", places, moved_surely, differences);
}

}  // namespace

bool GradientPair::beyond_noise() const {
  return difference && standard_error && std::abs(*difference) > noise;
}

GradientVerdict gradient_verdict(const ExperimentResult& result) {
  GradientVerdict verdict;
  const auto& rows = result.rows;
  std::vector<std::optional<LayerSpec>> specs;
  for (const RowResult& row : rows) specs.push_back(spec_of(row.row.name));
  const Spread pooled = pooled_spread(rows);
  // The layers ranked: all rows but those with a printed gradient.
  Errors exact, printed, paper;
  std::vector<size_t> place_of_pair;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (specs[i] && specs[i]->gradient() == Gradient::paper) continue;
    exact.push_back(error_of(rows[i]));
    printed.push_back(error_of(rows[i]));
    paper.push_back(rows[i].row.paper.error_percent);
    for (size_t j = 0; specs[i] && j < rows.size(); ++j) {
      if (!specs[j] || specs[j]->gradient() != Gradient::paper) continue;
      if (specs[j]->with_gradient(Gradient::exact) != *specs[i]) continue;
      GradientPair pair;
      pair.layer = rows[i].row.name;
      pair.exact_row = i;
      pair.printed_row = j;
      compare(pair, rows, pooled);
      pair.one_diverged = diverged(rows[i]) != diverged(rows[j]);
      printed.back() = error_of(rows[j]);
      // A layer without a result yet on one side is placed on neither.
      if (!exact.back() || !printed.back()) exact.back() = printed.back() = std::nullopt;
      place_of_pair.push_back(exact.size() - 1);
      verdict.pairs.push_back(pair);
    }
  }
  for (const auto& error : exact) verdict.layers += error.has_value();
  const std::vector<int> r_exact = places(exact, verdict.layers);
  const std::vector<int> r_printed = places(printed, verdict.layers), r_paper = ranks(paper);
  for (size_t k = 0; k < verdict.pairs.size(); ++k) {
    GradientPair& p = verdict.pairs[k];
    if (p.standard_error)
      p.noise = *p.standard_error *
                student_quantile(1 - significance / 2 / static_cast<double>(verdict.pairs.size()),
                                 p.freedom);
    p.rank_exact = r_exact[place_of_pair[k]];
    p.rank_printed = r_printed[place_of_pair[k]];
    p.rank_paper = r_paper[place_of_pair[k]];
    verdict.sentences.push_back(sentence(p, verdict, rows));
  }
  verdict.answer = answer(verdict);
  return verdict;
}

}  // namespace orthobatch
