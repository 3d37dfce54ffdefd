#include "experiment/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "orthobatch/spec.h"

namespace orthobatch::experiment {
namespace {

std::optional<LayerSpec> spec_of(const std::string& text) {
  try {
    return parse(text);
  } catch (const SpecError&) {
    return std::nullopt;  // a row with a name of its own
  }
}

/// What a row is placed by: one that diverged comes after all that did not, one in the middle of
/// its training has no place yet.
std::optional<double> error_of(const RowResult& row) {
  if (diverged(row)) return std::numeric_limits<double>::infinity();
  if (!row.finished) return std::nullopt;
  return row.best_error.mean;
}

/// Those that diverged share the last place.
std::vector<int> places(const Errors& errors, int layers) {
  std::vector<int> out = ranks_of(errors);
  for (size_t i = 0; i < errors.size(); ++i)
    if (errors[i] && std::isinf(*errors[i])) out[i] = layers;
  return out;
}

/// From all rows that came to their ends.
Spread spread_of(const std::vector<RowResult>& rows) {
  std::vector<Estimate> errors;
  for (const RowResult& row : rows)
    if (row.finished) errors.push_back(row.best_error);
  return pooled_spread(errors);
}

GradientPair compare(const std::vector<RowResult>& rows, size_t exact_row, size_t printed_row,
                     const Spread& pooled) {
  GradientPair pair;
  pair.layer = rows[exact_row].row.name;
  pair.exact_row = exact_row;
  pair.printed_row = printed_row;
  pair.one_diverged = diverged(rows[exact_row]) != diverged(rows[printed_row]);
  if (!comparable(rows[exact_row], rows[printed_row])) return pair;
  pair.difference = difference_of(rows[exact_row].best_error, rows[printed_row].best_error, pooled);
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
  const Spread pooled = spread_of(rows);
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

}  // namespace

bool GradientPair::beyond_noise() const { return judged() && std::abs(difference->value) > noise; }

bool GradientPair::moves() const { return rank_exact != rank_printed; }

bool GradientPair::moves_surely() const { return moves() && (beyond_noise() || one_diverged); }

GradientVerdict gradient_verdict(const std::vector<RowResult>& rows) {
  GradientVerdict verdict;
  const Ranking ranking = pair_rows(rows, verdict.pairs);
  verdict.layers = ranking.layers();
  const std::vector<int> exact = places(ranking.exact, verdict.layers);
  const std::vector<int> printed = places(ranking.printed, verdict.layers);
  const std::vector<int> paper = ranks_of(ranking.paper);
  for (size_t k = 0; k < verdict.pairs.size(); ++k) {
    GradientPair& p = verdict.pairs[k];
    if (p.difference) p.noise = noise_of(*p.difference, verdict.pairs.size());
    p.rank_exact = exact[ranking.layer_of_pair[k]];
    p.rank_printed = printed[ranking.layer_of_pair[k]];
    p.rank_paper = paper[ranking.layer_of_pair[k]];
  }
  return verdict;
}

}  // namespace orthobatch::experiment
