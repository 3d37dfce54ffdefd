#include "report/verdict.h"

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

GradientPair compare(const std::vector<RowResult>& rows, size_t exact_row, size_t printed_row,
                     const Spread& pooled) {
  GradientPair pair;
  pair.layer = rows[exact_row].row.name;
  pair.exact_row = exact_row;
  pair.printed_row = printed_row;
  pair.one_diverged = diverged(rows[exact_row]) != diverged(rows[printed_row]);
  if (!comparable(rows[exact_row], rows[printed_row])) return pair;
  const Estimate& exact = rows[exact_row].best_error;
  const Estimate& printed = rows[printed_row].best_error;
  pair.difference = exact.mean - printed.mean;
  const MeanVariance a = variance_of_mean(exact, pooled), b = variance_of_mean(printed, pooled);
  pair.own_deviation = !a.borrowed && !b.borrowed;
  if (a.freedom == 0 || b.freedom == 0) return pair;
  pair.freedom = degrees_of_freedom(a, b);
  pair.standard_error = std::sqrt(a.variance + b.variance);
  return pair;
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
      pairs.push_back(compare(rows, i, j, pooled));
      printed = error_of(rows[j]);
      // A layer without a result yet on one side is placed on neither.
      const bool settled = diverged(rows[i]) || diverged(rows[j]);
      if (!exact || !printed || (!settled && !comparable(rows[i], rows[j])))
        exact = printed = std::nullopt;
      ranking.layer_of_pair.push_back(ranking.exact.size());
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

GradientVerdict gradient_verdict(const std::vector<RowResult>& rows) {
  GradientVerdict verdict;
  const Ranking ranking = pair_rows(rows, verdict.pairs);
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
  }
  verdict.others_moved = others_that_move(ranking, verdict.pairs);
  return verdict;
}

}  // namespace orthobatch
