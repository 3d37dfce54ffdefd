// orthobatch report: the page, and the numbers, of runs that are there.

#include <fmt/core.h>

#include "cli/options.h"
#include "cli/verbs.h"
#include "io/file.h"
#include "report/page.h"
#include "report/summary.h"
#include "report/tables.h"

namespace orthobatch::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> folders;
  std::string page = "report.html", markdown;
  bool json = false, no_samples = false;
};

int report(const ReportArguments& a) {
  const std::vector<experiment::ExperimentResult> results = experiment::read_results(a.folders);
  const report::Table answers = report::answers_table(results);
  std::string markdown = answers.rows.empty() ? "" : report::to_markdown(answers);
  for (const experiment::ExperimentResult& result : results) {
    if (!a.json) say("{}", report::to_text(result));
    markdown += (markdown.empty() ? "" : "\n") + report::to_markdown(result);
  }
  if (!a.markdown.empty()) io::write_output(a.markdown, markdown);
  const std::string page = report::report_page(results, {!a.no_samples});
  io::write_output(a.page, page);
  if (a.json)
    say("{}\n", report::to_text(report::to_json(results)));
  else
    say("Report: {} ({:.2f} MB)\n", a.page, static_cast<double>(page.size()) / 1e6);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("report", "Writes tables and figures of runs as one HTML file");
  auto a = std::make_shared<ReportArguments>();
  verb->add_option("DIR", a->folders, "Folders written by reproduce or train")->required();
  verb->add_option("-o,--out", a->page, "HTML file to write")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_flag("--json", a->json, "The numbers of the page as JSON in place of the tables");
  verb->add_option("--markdown", a->markdown, "Markdown file for the tables")
      ->type_name("FILE")
      ->default_str("none");
  verb->add_flag("--no-samples", a->no_samples,
                 "Leave out images of the data sets (SVHN's must not be passed on)");
  verb->callback([&run, a] { run = [a] { return report(*a); }; });
}

}  // namespace orthobatch::cli
