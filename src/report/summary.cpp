#include "report/summary.h"

#include <fmt/core.h>

#include <cmath>

#include "report/verdict_text.h"

namespace orthobatch {
namespace {

std::string estimate_text(const Estimate& e, int digits) {
  if (e.n == 0) return "-";
  const auto number = [&](double x) {
    return std::abs(x) < 1e6 ? fmt::format("{:.{}f}", x, digits) : fmt::format("{:.3g}", x);
  };
  return number(e.mean) + (e.deviation ? " ± " + number(*e.deviation) : "");
}

/// A row's loss, over the outputs where the paper seems to count it so.
Estimate shared_loss(const RowResult& row, double share) {
  Estimate loss = row.best_loss;
  loss.mean /= share;
  if (loss.deviation) *loss.deviation /= share;
  return loss;
}

std::string loss_name(double share) {
  return share != 1 ? fmt::format("loss/{:g}", share) : "loss";
}

/// The paper's loss for SVHN, its epoch for MNIST.
std::string second_of_paper(const PaperResult& paper, double share) {
  if (share != 1 && paper.loss) return fmt::format("{:.4f}", *paper.loss);
  if (share == 1 && paper.epoch) return std::to_string(*paper.epoch);
  return "-";
}

std::string error_text(const PaperResult& paper) {
  return paper.error_percent ? fmt::format("{:.2f}", *paper.error_percent) : "-";
}

std::string place_text(int place) { return place > 0 ? std::to_string(place) : "-"; }

std::string times_text(const RowResult& row) {
  return row.times_bn ? fmt::format("{:.2f}", *row.times_bn) : "-";
}

std::string remark_of(const RowResult& row) {
  std::string remark = row.remark;
  for (const RunRecord& run : row.runs)
    if (run.there && !run.problems.empty())
      remark += (remark.empty() ? "" : "; ") + run.problems.front();
  return remark;
}

const char* name_of(ClaimFigure figure) {
  switch (figure) {
    case ClaimFigure::best_error:
      return "best error %";
    case ClaimFigure::first_error:
      return "error % after epoch 1";
    case ClaimFigure::train_loss:
      return "training loss of the last epoch";
  }
  return "";
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (std::string cell : cells) {
    for (size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2)
      cell.insert(at, 1, '\\');
    line += " " + cell + " |";
  }
  return line + "\n";
}

/// "PLDLP(1e-5): 3 exchanges among 1021280 pivots …"; empty for a row without PLDLP, or whose runs
/// did not count.
std::string exchanges_text(const RowResult& row) {
  const auto& blocks = row.row.config.net.blocks;
  int64_t exchanges = 0, pivots = 0;
  for (const RunRecord& run : row.runs)
    for (const EpochRecord& e : run.epochs) {
      if (e.curve.empty()) return "";  // of 0.1
      for (size_t i = 0; i < e.layers.size() && i < blocks.size(); ++i) {
        exchanges += e.layers[i].exchanges;
        if (blocks[i].layer.rfind("PLDLP", 0) == 0) pivots += e.steps * e.layers[i].channels;
      }
    }
  if (pivots == 0) return "";
  return fmt::format("{}: {} exchange{} among {} pivots in all of training.", row.row.name,
                     exchanges, exchanges == 1 ? "" : "s", pivots);
}

/// What the table comes to, but for the claims.
std::vector<std::string> sentences(const ExperimentResult& result) {
  std::vector<std::string> out;
  const Errors ours = our_errors(result), papers = paper_errors(result);
  if (const auto correlation = rank_correlation(ours, papers)) {
    int both = 0;
    for (size_t i = 0; i < ours.size(); ++i) both += ours[i] && papers[i];
    out.push_back(
        fmt::format("The order of the {} layers correlates {:.2f} with the paper's "
                    "(Spearman).",
                    both, *correlation));
  }
  for (const RowResult& row : result.rows)
    if (const std::string text = exchanges_text(row); !text.empty()) out.push_back(text);
  if (!result.verdict.pairs.empty())
    out.push_back("Does the exact gradient change the order? " + answer_text(result.verdict));
  return out;
}

/// A row for each pair: the claim stands in its first.
std::string claims_markdown(const ExperimentResult& result) {
  if (result.claims.empty()) return "";
  std::string out = markdown_row({"claim of the paper", "of", "first", "second", "difference",
                                  "noise up to", "in the paper", "answer"});
  out += "| --- | --- | --- | --- | ---: | ---: | ---: | --- |\n";
  for (const ClaimResult& claim : result.claims)
    for (const ClaimPair& p : claim.pairs) {
      const bool leads = &p == claim.pairs.data();
      const int digits = claim.claim.figure == ClaimFigure::train_loss ? 3 : 2;
      const auto side = [&](size_t row, const Estimate& figure) {
        return fmt::format("`{}` {}", result.rows[row].row.name, estimate_text(figure, digits));
      };
      const auto number = [&](const char* sign, const std::optional<double>& x) {
        return x ? fmt::format("{}{:.{}f}", *x >= 0 ? sign : "", *x, digits) : "-";
      };
      const bool judged = p.difference && p.difference->standard_error;
      out += markdown_row(
          {leads ? fmt::format("{}: **{}**", claim.claim.text, to_string(claim.answer)) : "",
           leads ? name_of(claim.claim.figure) : "", side(p.first, p.first_figure),
           side(p.second, p.second_figure),
           number("+", p.difference ? std::optional(p.difference->value) : std::nullopt),
           number("", judged ? std::optional(p.noise) : std::nullopt), number("+", p.paper),
           to_string(p.answer)});
    }
  return out +
         "\nNoise: what Student's t allows by chance, at 5 % for all pairs of a claim together, "
         "with "
         "the deviation of all rows that have several seeds.\n\n";
}

}  // namespace

std::vector<std::vector<std::string>> text_table(const ExperimentResult& result) {
  const double share = result.experiment.loss_share;
  std::vector<std::vector<std::string>> rows = {
      {"layer", "paper %", share != 1 ? "paper loss" : "at epoch", "best %", "at epoch",
       loss_name(share), "last %", "s/epoch", "× BN", ""}};
  for (const RowResult& r : result.rows)
    rows.push_back({r.row.name, error_text(r.row.paper), second_of_paper(r.row.paper, share),
                    estimate_text(r.best_error, 2),
                    estimate_text({r.best_epoch.n, r.best_epoch.mean, std::nullopt}, 0),
                    estimate_text(shared_loss(r, share), 4), estimate_text(r.last_error, 2),
                    r.epoch_seconds > 0
                        ? fmt::format("{:.{}f}", r.epoch_seconds, r.epoch_seconds < 10 ? 1 : 0)
                        : "-",
                    times_text(r), remark_of(r)});
  return rows;
}

std::vector<std::string> conclusions(const ExperimentResult& result) {
  std::vector<std::string> out = sentences(result);
  if (const std::string text = claims_text(result.claims); !text.empty()) out.push_back(text);
  return out;
}

std::string to_markdown(const ExperimentResult& result) {
  std::string out = fmt::format("## {}\n\n", result.experiment.title);
  for (const RowResult& row : result.rows)
    if (!row.runs.empty() && row.runs.front().train_images > 0) {
      const RunRecord& run = row.runs.front();
      out += fmt::format("{} training images, {} test images, {} epochs.\n\n", run.train_images,
                         run.test_images, run.epochs_wanted);
      break;
    }
  const double share = result.experiment.loss_share;
  const std::vector<int> places = ranks_of(our_errors(result));
  const std::vector<int> paper_places = ranks_of(paper_errors(result));
  out += markdown_row({"layer", "paper: error %", share != 1 ? loss_name(share) : "epoch", "place",
                       "here: best error %", "epoch", loss_name(share), "place", "last error %",
                       "time × BN"});
  out += "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const RowResult& r = result.rows[i];
    const bool told = r.best_error.n == 0;  // a row without a number says why
    const std::string remark = remark_of(r);
    out += markdown_row(
        {"`" + r.row.name + "`", error_text(r.row.paper), second_of_paper(r.row.paper, share),
         place_text(paper_places[i]), told ? remark : estimate_text(r.best_error, 2),
         estimate_text({r.best_epoch.n, r.best_epoch.mean, std::nullopt}, 0),
         estimate_text(shared_loss(r, share), 4), place_text(places[i]),
         estimate_text(r.last_error, 2) + (told || remark.empty() ? "" : "; " + remark),
         times_text(r)});
  }
  out += "\n";
  for (const std::string& sentence : sentences(result)) out += sentence + "\n\n";
  out += claims_markdown(result);
  for (const std::string& sentence : pair_texts(result.verdict, result.rows))
    out += "- " + sentence + "\n";
  return out;
}

}  // namespace orthobatch
