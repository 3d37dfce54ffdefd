#include "report/summary.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "experiment/trend.h"
#include "report/tables.h"

namespace orthobatch::report {
namespace {

/// "PLDLP(1e-5): 3 exchanges among 1021280 pivots …"; empty for a row without PLDLP.
std::string exchanges_text(const experiment::RowResult& row) {
  const auto& blocks = row.row.config.net.blocks;
  int64_t exchanges = 0, pivots = 0;
  for (const run::RunRecord& run : row.runs)
    for (const run::EpochRecord& e : run.epochs)
      for (size_t i = 0; i < e.layers.size() && i < blocks.size(); ++i) {
        exchanges += e.layers[i].exchanges;
        if (blocks[i].layer.rfind("PLDLP", 0) == 0) pivots += e.steps * e.layers[i].channels;
      }
  if (pivots == 0) return "";
  return fmt::format("{}: {} exchange{} among {} pivots in all of training.", row.row.name,
                     exchanges, exchanges == 1 ? "" : "s", pivots);
}

/// Empty for fewer than two layers with a line.
std::string trend_text(const experiment::ExperimentResult& result) {
  const double images = static_cast<double>(result.experiment.trend_to);
  std::string text;
  int lines = 0;
  if (images > 0)
    for (const experiment::Trend& trend : experiment::trends_of(result.rows))
      if (trend.line)
        text += fmt::format("{}{} {:.2f} % (error ~ images^{:.2f})", lines++ > 0 ? ", " : "",
                            trend.layer, trend.line->at(images), trend.line->exponent);
  if (lines < 2) return "";
  return fmt::format("Extrapolated to {:.0f} images by a power law (least squares): {}.", images,
                     text);
}

/// What the table comes to, but for the claims.
std::vector<std::string> sentences(const experiment::ExperimentResult& result) {
  std::vector<std::string> out;
  const experiment::Errors ours = experiment::our_errors(result),
                           papers = experiment::paper_errors(result);
  if (const auto correlation = experiment::rank_correlation(ours, papers)) {
    int both = 0;
    for (size_t i = 0; i < ours.size(); ++i) both += ours[i] && papers[i];
    out.push_back(
        fmt::format("The order of the {} layers correlates {:.2f} with the paper's "
                    "(Spearman).",
                    both, *correlation));
  }
  for (const experiment::RowResult& row : result.rows)
    if (const std::string text = exchanges_text(row); !text.empty()) out.push_back(text);
  if (const std::string text = trend_text(result); !text.empty()) out.push_back(text);
  if (!result.verdict.pairs.empty())
    out.push_back("Does the exact gradient change the order? " + answer_text(result.verdict));
  return out;
}

}  // namespace

std::string answer_text(const experiment::GradientVerdict& verdict) {
  int compared = 0, judged = 0, moved = 0, sure = 0, better = 0;
  std::vector<std::string> movers;
  for (const experiment::GradientPair& p : verdict.pairs) {
    if (p.rank_exact == 0) continue;
    ++compared;
    judged += p.judged();
    moved += p.moves();
    sure += p.beyond_noise();
    better += p.beyond_noise() && p.difference->value < 0;
    if (p.moves_surely())
      movers.push_back(fmt::format("{} ({} → {}{})", p.layer, p.rank_printed, p.rank_exact,
                                   p.one_diverged ? ", diverges with one of the gradients" : ""));
  }
  if (compared == 0) return "No layer has a result with both gradients yet.";
  const std::string places = fmt::format("the place of {} of {} layers changes", moved, compared);
  if (judged == 0 && movers.empty())
    return fmt::format("Not known: {}, but no row has two seeds, so the noise is unknown.", places);
  const std::string differences = fmt::format(
      "{} of {} differences in error are beyond noise, {} in favour of the exact gradient", sure,
      judged, better);
  if (moved == 0) return fmt::format("No: {}; {}.", places, differences);
  if (movers.empty())
    return fmt::format("Not measurably: {}, none by a difference in error beyond noise; {}.",
                       places, differences);
  return fmt::format("Yes, for some of {} layers, beyond noise: {}. {}.", verdict.layers,
                     fmt::join(movers, ", "),
                     judged > 0 ? differences : "No row has two seeds, so the noise is unknown");
}

std::string claims_text(const std::vector<experiment::ClaimResult>& claims) {
  std::string text;
  bool judged = false;
  for (const experiment::ClaimResult& c : claims) {
    const int reversed = c.count(experiment::Answer::no);
    text += fmt::format("\n  {:<9}  {}: {} of {} pair{}", to_string(c.answer), c.claim.text,
                        c.count(experiment::Answer::yes), c.pairs.size(),
                        c.pairs.size() == 1 ? "" : "s");
    if (reversed > 0)
      text += fmt::format(", {} {}", reversed,
                          c.claim.within > 0 ? "too far apart" : "the other way round");
    for (const experiment::ClaimPair& pair : c.pairs)
      judged |= pair.answer != experiment::Answer::undecided ||
                (pair.difference && pair.difference->standard_error);
  }
  return judged ? "The paper's claims (yes: all of its pairs differ beyond noise):" + text : "";
}

std::vector<std::string> conclusions(const experiment::ExperimentResult& result) {
  std::vector<std::string> out = sentences(result);
  if (const std::string text = claims_text(result.claims); !text.empty()) out.push_back(text);
  return out;
}

std::string to_text(const experiment::ExperimentResult& result) {
  std::string out = fmt::format(
      "{}: the epoch with the least test error, as the paper chooses it, and the last epoch"
      "\n\n{}\n",
      result.experiment.title, format_table(text_rows(result_table(result))));
  for (const std::string& sentence : conclusions(result)) out += sentence + "\n\n";
  return out;
}

std::string to_markdown(const experiment::ExperimentResult& result) {
  std::string out = fmt::format("## {}\n\n", markdown_text(result.experiment.title));
  for (const experiment::RowResult& row : result.rows)
    if (!row.runs.empty() && row.runs.front().train_images > 0) {
      const run::RunRecord& run = row.runs.front();
      out += fmt::format("{} training images, {} test images, {} epochs.\n\n", run.train_images,
                         run.test_images, run.epochs_wanted);
      break;
    }
  out += to_markdown(result_table(result)) + "\n";
  for (const std::string& sentence : sentences(result)) out += markdown_text(sentence) + "\n\n";
  if (!result.claims.empty())
    out += to_markdown(claims_table(result)) +
           "\nNoise: two-sample t test, Bonferroni-corrected over the pairs of a claim, 5 %, with "
           "the deviation of all rows that have several seeds.\n\n";
  if (!result.verdict.pairs.empty())
    out +=
        to_markdown(verdict_table(result)) +
        "\nNoise: Welch's t test, Bonferroni-corrected over all pairs, 5 %. * with the deviation "
        "of the rows that have several seeds.\n";
  return out;
}

}  // namespace orthobatch::report
