#include "experiment/claims.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::experiment {
namespace {

/// Epochs until a test error of at most `target`, over the seeds that the row counts; one more than
/// were made where it never came.
Estimate epochs_until(double target, const RowResult& row) {
  std::vector<double> epochs;
  for (const run::RunRecord& run : row.runs) {
    if (!run.last() || (run.last()->epoch < row.epochs && run.stopped_early.empty())) continue;
    const auto first =
        std::find_if(run.epochs.begin(), run.epochs.end(),
                     [&](const run::EpochRecord& e) { return e.test.error_percent <= target; });
    epochs.push_back(
        static_cast<double>(first != run.epochs.end() ? first->epoch : run.last()->epoch + 1));
  }
  return Estimate::of(epochs);
}

/// `second` is the row that a pair compares with, itself or another.
Estimate figure_of(const RowResult& row, ClaimFigure figure, const RowResult& second) {
  switch (figure) {
    case ClaimFigure::first_error:
      return row.first_error;
    case ClaimFigure::train_loss:
      return row.last_train_loss;
    case ClaimFigure::epochs_to_best:
      return &row == &second ? row.best_epoch : epochs_until(second.best_error.mean, row);
    case ClaimFigure::best_error:
      break;
  }
  return row.best_error;
}

size_t row_named(const std::string& name, const std::vector<RowResult>& rows) {
  return std::find_if(rows.begin(), rows.end(),
                      [&](const RowResult& r) { return r.row.name == name; }) -
         rows.begin();
}

std::optional<double> difference_in_paper(const ExperimentRow& a, const ExperimentRow& b,
                                          ClaimFigure figure) {
  if (figure != ClaimFigure::best_error || !a.paper.error_percent || !b.paper.error_percent)
    return std::nullopt;
  return *a.paper.error_percent - *b.paper.error_percent;
}

/// First − second, by so much more than noise as the claim says.
Answer judge(const ClaimPair& pair, double within) {
  if (!pair.difference || !pair.difference->standard_error) return Answer::undecided;
  const double d = pair.difference->value;
  if (within > 0)
    return std::abs(d) + pair.noise <= within  ? Answer::yes
           : std::abs(d) - pair.noise > within ? Answer::no
                                               : Answer::undecided;
  return d < -pair.noise ? Answer::yes : d > pair.noise ? Answer::no : Answer::undecided;
}

/// Of two rows of which one or both diverged.
Answer judge_diverged(bool first, bool second, double within) {
  if (first == second) return Answer::undecided;
  return first || within > 0 ? Answer::no : Answer::yes;
}

/// Two or three seeds know their own deviation so badly that a row with them would be judged more
/// strictly than one with a single seed: all rows share what those with several show together.
Estimate with_shared_deviation(Estimate figure) {
  figure.deviation = std::nullopt;
  return figure;
}

ClaimPair judge_pair(const ExperimentClaim& claim, const std::pair<std::string, std::string>& names,
                     const std::vector<RowResult>& rows, const Spread& pooled) {
  ClaimPair pair;
  pair.first = row_named(names.first, rows);
  pair.second = row_named(names.second, rows);
  const RowResult &a = rows[pair.first], &b = rows[pair.second];
  pair.paper = difference_in_paper(a.row, b.row, claim.figure);
  if (a.finished) pair.first_figure = figure_of(a, claim.figure, b);
  if (b.finished) pair.second_figure = figure_of(b, claim.figure, b);
  if (diverged(a) || diverged(b)) {
    pair.answer = judge_diverged(diverged(a), diverged(b), claim.within);
    return pair;
  }
  if (!comparable(a, b) || pair.first_figure.n == 0 || pair.second_figure.n == 0) return pair;
  pair.difference = difference_of(with_shared_deviation(pair.first_figure),
                                  with_shared_deviation(pair.second_figure), pooled);
  pair.noise = noise_of(*pair.difference, claim.pairs.size());
  pair.answer = judge(pair, claim.within);
  return pair;
}

}  // namespace

const char* to_string(Answer answer) {
  constexpr const char* texts[] = {"yes", "no", "undecided"};
  return texts[static_cast<size_t>(answer)];
}

int ClaimResult::count(Answer of) const {
  return static_cast<int>(
      std::count_if(pairs.begin(), pairs.end(), [&](const auto& p) { return p.answer == of; }));
}

std::vector<ClaimResult> judge_claims(const std::vector<ExperimentClaim>& claims,
                                      const std::vector<RowResult>& rows) {
  std::vector<ClaimResult> out;
  for (const ExperimentClaim& claim : claims) {
    std::vector<Estimate> figures;
    const RowResult& second = rows[row_named(claim.pairs.front().second, rows)];
    for (const RowResult& row : rows)
      if (row.finished) figures.push_back(figure_of(row, claim.figure, second));
    const Spread pooled = pooled_spread(figures);
    ClaimResult result;
    result.claim = claim;
    for (const auto& names : claim.pairs)
      result.pairs.push_back(judge_pair(claim, names, rows, pooled));
    if (result.count(Answer::no) > 0)
      result.answer = Answer::no;
    else if (result.count(Answer::undecided) == 0)
      result.answer = Answer::yes;
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace orthobatch::experiment
