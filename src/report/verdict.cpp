#include "report/verdict.h"

#include <fmt/core.h>
#include <fmt/format.h>

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

/// Of two rows that came to their ends: ends of the same number of epochs.
bool comparable(const RowResult& a, const RowResult& b) {
  return a.finished && b.finished && a.epochs == b.epochs;
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
  if (!comparable(rows[pair.exact_row], rows[pair.printed_row])) return;
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
  if (exact.finished && printed.finished && exact.epochs != printed.epochs)
    return text + fmt::format(", after {} and {} epochs: not to be compared.", printed.epochs,
                              exact.epochs);
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

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string others_text(const GradientVerdict& verdict) {
  if (verdict.others_moved == 0) return "the others keep their order";
  bool noise = true;  // known, and more than their differences
  for (const GradientPair& p : verdict.pairs)
    if (p.difference && !p.moves_surely()) noise &= p.standard_error && !p.beyond_noise();
  return fmt::format("{} of the others change places among themselves{}", verdict.others_moved,
                     noise ? ", by no more than noise" : "");
}

std::string answer(const GradientVerdict& verdict) {
  int compared = 0, judged = 0, moved = 0, sure = 0, better = 0;
  std::vector<std::string> by_error, by_diverging;
  double least_noise = std::numeric_limits<double>::infinity(), most_noise = 0;
  for (const GradientPair& p : verdict.pairs) {
    if (p.rank_exact == 0) continue;
    ++compared;
    judged += p.standard_error.has_value();
    moved += p.moves();
    sure += p.beyond_noise();
    better += p.beyond_noise() && *p.difference < 0;
    if (p.standard_error && !p.beyond_noise()) {
      least_noise = std::min(least_noise, p.noise);
      most_noise = std::max(most_noise, p.noise);
    }
    if (p.moves_surely())
      (p.one_diverged ? by_diverging : by_error)
          .push_back(fmt::format("{} ({} → {})", p.layer, p.rank_printed, p.rank_exact));
  }
  if (compared == 0) return "No layer has a result with both gradients yet.";
  const std::string places = fmt::format("the place of {} of {} layers changes", moved, compared);
  const bool some = !by_error.empty() || !by_diverging.empty();
  if (judged == 0 && !some)
    return fmt::format("Not known: {}, but no row has two seeds to tell noise by.", places);
  std::string differences = fmt::format(
      "{} of {} differences in error are beyond noise, {} in favour of the exact gradient", sure,
      judged, better);
  if (sure < judged)
    differences += fmt::format("; in the others noise alone may make {} points",
                               range_text(least_noise, most_noise));
  if (moved == 0) return fmt::format("No: {}; {}.", places, differences);
  if (!some)
    return fmt::format("Not measurably: {}, none by a difference in error beyond noise; {}.",
                       places, differences);
  std::vector<std::string> which;
  if (!by_error.empty()) which.push_back("beyond noise " + joined(by_error));
  if (!by_diverging.empty())
    which.push_back(joined(by_diverging) + ", which diverges with one of the gradients");
  return fmt::format("Yes, for some of {} layers: {}; {}. {}.", verdict.layers,
                     fmt::join(which, "; "), others_text(verdict),
                     judged > 0 ? differences : "No row has two seeds to tell noise by");
}

/// What the layers are ranked by: all rows but those with a printed gradient.
struct Ranking {
  Errors exact, printed, paper;
  std::vector<size_t> layer_of_pair;

  int layers() const {
    return static_cast<int>(
        std::count_if(exact.begin(), exact.end(), [](const auto& e) { return e.has_value(); }));
  }
};

Ranking pair_rows(const std::vector<RowResult>& rows, std::vector<GradientPair>& pairs) {
  Ranking ranking;
  std::vector<std::optional<LayerSpec>> specs;
  for (const RowResult& row : rows) specs.push_back(spec_of(row.row.name));
  const Spread pooled = pooled_spread(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (specs[i] && specs[i]->gradient() == Gradient::paper) continue;
    std::optional<double> exact = error_of(rows[i]), printed = exact;
    for (size_t j = 0; specs[i] && j < rows.size(); ++j) {
      if (!specs[j] || specs[j]->gradient() != Gradient::paper) continue;
      if (specs[j]->with_gradient(Gradient::exact) != *specs[i]) continue;
      GradientPair pair;
      pair.layer = rows[i].row.name;
      pair.exact_row = i;
      pair.printed_row = j;
      compare(pair, rows, pooled);
      pair.one_diverged = diverged(rows[i]) != diverged(rows[j]);
      printed = error_of(rows[j]);
      // A layer without a result yet on one side is placed on neither.
      const bool settled = diverged(rows[i]) || diverged(rows[j]);
      if (!exact || !printed || (!settled && !comparable(rows[i], rows[j])))
        exact = printed = std::nullopt;
      ranking.layer_of_pair.push_back(ranking.exact.size());
      pairs.push_back(pair);
    }
    ranking.exact.push_back(exact);
    ranking.printed.push_back(printed);
    ranking.paper.push_back(rows[i].row.paper.error_percent);
  }
  return ranking;
}

/// How many change places when those that surely do are left out.
int others_that_move(Ranking ranking, const std::vector<GradientPair>& pairs) {
  for (size_t k = 0; k < pairs.size(); ++k)
    if (pairs[k].moves_surely())
      ranking.exact[ranking.layer_of_pair[k]] = ranking.printed[ranking.layer_of_pair[k]] =
          std::nullopt;
  const std::vector<int> exact = places(ranking.exact, ranking.layers());
  const std::vector<int> printed = places(ranking.printed, ranking.layers());
  int moved = 0;
  for (size_t i = 0; i < exact.size(); ++i) moved += exact[i] != printed[i];
  return moved;
}

}  // namespace

bool GradientPair::beyond_noise() const {
  return difference && standard_error && std::abs(*difference) > noise;
}

bool GradientPair::moves() const { return rank_exact != rank_printed; }

bool GradientPair::moves_surely() const { return moves() && (beyond_noise() || one_diverged); }

GradientVerdict gradient_verdict(const ExperimentResult& result) {
  GradientVerdict verdict;
  const Ranking ranking = pair_rows(result.rows, verdict.pairs);
  verdict.layers = ranking.layers();
  const std::vector<int> exact = places(ranking.exact, verdict.layers);
  const std::vector<int> printed = places(ranking.printed, verdict.layers);
  const std::vector<int> paper = ranks(ranking.paper);
  const double probability =
      1 - significance / 2 / std::max<double>(1, static_cast<double>(verdict.pairs.size()));
  for (size_t k = 0; k < verdict.pairs.size(); ++k) {
    GradientPair& p = verdict.pairs[k];
    if (p.standard_error) p.noise = *p.standard_error * student_quantile(probability, p.freedom);
    p.rank_exact = exact[ranking.layer_of_pair[k]];
    p.rank_printed = printed[ranking.layer_of_pair[k]];
    p.rank_paper = paper[ranking.layer_of_pair[k]];
    verdict.sentences.push_back(sentence(p, verdict, result.rows));
  }
  verdict.others_moved = others_that_move(ranking, verdict.pairs);
  verdict.answer = answer(verdict);
  return verdict;
}

}  // namespace orthobatch
