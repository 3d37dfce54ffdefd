#include "report/verdict_text.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace orthobatch {
namespace {

std::string outcome_text(const RowResult& row) {
  if (!row.finished) return row.remark.empty() ? "no result" : row.remark;
  std::string text = fmt::format("{:.2f} %", row.best_error.mean);
  if (row.best_error.deviation) text += fmt::format(" (± {:.2f})", *row.best_error.deviation);
  return text;
}

std::string pair_text(const GradientPair& p, const GradientVerdict& verdict,
                      const std::vector<RowResult>& rows) {
  const RowResult &exact = rows[p.exact_row], &printed = rows[p.printed_row];
  std::string text = fmt::format("{}: {} with the printed gradient, {} with the exact one", p.layer,
                                 outcome_text(printed), outcome_text(exact));
  if (exact.finished && printed.finished && exact.epochs != printed.epochs)
    return text + fmt::format(", after {} and {} epochs: not to be compared.", printed.epochs,
                              exact.epochs);
  if (p.rank_exact == 0) return text + "; nothing to compare.";
  if (p.difference) text += fmt::format(", a difference of {:+.2f} points", p.difference->value);
  if (p.judged())
    text += fmt::format(
        " where noise may make {:.2f}{}: {}", p.noise,
        p.difference->own_deviation ? "" : " (deviation borrowed from rows with several seeds)",
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
    if (p.difference && !p.moves_surely()) noise &= p.judged() && !p.beyond_noise();
  return fmt::format("{} of the others change places among themselves{}", verdict.others_moved,
                     noise ? ", by no more than noise" : "");
}

/// How many pairs there are of each kind.
struct Tally {
  int compared = 0;  ///< that have a place with both gradients
  int judged = 0;    ///< of these: whose noise is known
  int moved = 0;     ///< that change places
  int sure = 0;      ///< whose difference is beyond noise
  int better = 0;    ///< of these: in favour of the exact gradient
  double least_noise = std::numeric_limits<double>::infinity();  ///< of those within noise
  double most_noise = 0;
  std::vector<std::string> by_error, by_diverging;  ///< those that surely move, and from where to
};

Tally tally(const GradientVerdict& verdict) {
  Tally t;
  for (const GradientPair& p : verdict.pairs) {
    if (p.rank_exact == 0) continue;
    ++t.compared;
    t.judged += p.judged();
    t.moved += p.moves();
    t.sure += p.beyond_noise();
    t.better += p.beyond_noise() && p.difference->value < 0;
    if (p.judged() && !p.beyond_noise()) {
      t.least_noise = std::min(t.least_noise, p.noise);
      t.most_noise = std::max(t.most_noise, p.noise);
    }
    if (p.moves_surely())
      (p.one_diverged ? t.by_diverging : t.by_error)
          .push_back(fmt::format("{} ({} → {})", p.layer, p.rank_printed, p.rank_exact));
  }
  return t;
}

std::string differences_text(const Tally& t) {
  std::string text = fmt::format(
      "{} of {} differences in error are beyond noise, {} in favour of the exact gradient", t.sure,
      t.judged, t.better);
  if (t.sure < t.judged)
    text += fmt::format("; in the others noise alone may make {} points",
                        range_text(t.least_noise, t.most_noise));
  return text;
}

std::string movers_text(const Tally& t) {
  std::vector<std::string> which;
  if (!t.by_error.empty()) which.push_back("beyond noise " + joined(t.by_error));
  if (!t.by_diverging.empty())
    which.push_back(joined(t.by_diverging) + ", which diverges with one of the gradients");
  return fmt::format("{}", fmt::join(which, "; "));
}

}  // namespace

std::string answer_text(const GradientVerdict& verdict) {
  const Tally t = tally(verdict);
  if (t.compared == 0) return "No layer has a result with both gradients yet.";
  const std::string places =
      fmt::format("the place of {} of {} layers changes", t.moved, t.compared);
  const bool some = !t.by_error.empty() || !t.by_diverging.empty();
  if (t.judged == 0 && !some)
    return fmt::format("Not known: {}, but no row has two seeds to tell noise by.", places);
  const std::string differences = differences_text(t);
  if (t.moved == 0) return fmt::format("No: {}; {}.", places, differences);
  if (!some)
    return fmt::format("Not measurably: {}, none by a difference in error beyond noise; {}.",
                       places, differences);
  return fmt::format("Yes, for some of {} layers: {}; {}. {}.", verdict.layers, movers_text(t),
                     others_text(verdict),
                     t.judged > 0 ? differences : "No row has two seeds to tell noise by");
}

std::vector<std::string> pair_texts(const GradientVerdict& verdict,
                                    const std::vector<RowResult>& rows) {
  std::vector<std::string> out;
  for (const GradientPair& p : verdict.pairs) out.push_back(pair_text(p, verdict, rows));
  return out;
}

}  // namespace orthobatch
