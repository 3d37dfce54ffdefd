// orthobatch report: the page, and the numbers, of runs that are there.

#include <fmt/core.h>

#include "cli/table.h"
#include "cli/verbs.h"
#include "io/file.h"
#include "report/page.h"
#include "report/verdict.h"

namespace orthobatch::cli {
namespace {

struct Arguments {
  std::vector<std::string> folders;
  std::string page = "report.html", json;
  bool no_samples = false;
};

int report(const Arguments& a) {
  const std::vector<ExperimentResult> results = read_results(a.folders);
  for (const ExperimentResult& result : results) {
    fmt::print("{}\n\n{}\n", result.experiment.title, format_table(text_table(result)));
    const GradientVerdict verdict = gradient_verdict(result);
    if (!verdict.pairs.empty()) fmt::print("{}\n\n", verdict.answer);
  }
  const std::string page = report_page(results, {!a.no_samples});
  write_file(a.page, page);
  if (!a.json.empty()) write_file(a.json, to_json(results).dump() + "\n");
  fmt::print("Report: {} ({:.2f} MB)\n", a.page, static_cast<double>(page.size()) / 1e6);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("report", "Tables and figures of runs, as one HTML file");
  auto a = std::make_shared<Arguments>();
  verb->add_option("DIR", a->folders, "Folders that reproduce or train wrote")->required();
  verb->add_option("-o,--out", a->page, "The page")->capture_default_str();
  verb->add_option("--json", a->json, "Also write the numbers of the page, as JSON");
  verb->add_flag("--no-samples", a->no_samples,
                 "Without images of the data sets: for a page that is passed on (SVHN is for "
                 "research, not for copying)");
  verb->callback([&run, a] { run = [a] { return report(*a); }; });
}

}  // namespace orthobatch::cli
