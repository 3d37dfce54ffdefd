// orthobatch check SPEC: the layer's gradients against central differences.

#include <fmt/core.h>

#include "base/text.h"
#include "check/gradient_check.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "io/json.h"
#include "report/table.h"

namespace orthobatch::cli {
namespace {

const std::map<std::string, check::Spectrum> spectra = {{"distinct", check::Spectrum::distinct},
                                                        {"close", check::Spectrum::close},
                                                        {"equal", check::Spectrum::equal},
                                                        {"deficient", check::Spectrum::deficient}};

constexpr int unresolved_code = 3;  // neither right nor wrong: 2 is for the command line

std::string name_of(check::Spectrum spectrum) {
  for (const auto& [name, value] : spectra)
    if (value == spectrum) return name;
  return "";
}

std::string verdict_text(check::Verdict verdict) {
  constexpr const char* texts[] = {"ok", "OFF", "no gradient here", "unresolved"};
  return texts[static_cast<size_t>(verdict)];
}

/// Whether there were differences to compare it with.
bool compared(const check::CheckRow& row) {
  return row.verdict == check::Verdict::ok || row.verdict == check::Verdict::off ||
         (row.verdict == check::Verdict::unresolved && row.exact_error > 0);
}

void print(const LayerSpec& spec, const check::CheckOptions& o, const check::CheckResult& result) {
  fmt::print("{}: {} channels, {} samples, {} eigenvalues{}, {} parameters, seed {}\n\n",
             to_string(spec), o.channels, o.samples, name_of(o.spectrum),
             o.spectrum == check::Spectrum::close ? fmt::format(" ({:g} apart)", o.gap) : "",
             o.at_start ? "initial" : "random", o.seed);
  std::vector<std::vector<std::string>> table = {
      {"gradient of", "exact", "paper", "resolved to", "verdict"}};
  for (const check::CheckRow& row : result.rows) {
    const auto number = [&](double x) { return compared(row) ? fmt::format("{:.1e}", x) : "-"; };
    table.push_back({row.of, number(row.exact_error),
                     row.paper_error ? number(*row.paper_error) : "-", number(row.resolution),
                     verdict_text(row.verdict)});
  }
  fmt::print("{}\n", report::format_table(table));
  for (const std::string& why : result.why_no_gradient)
    fmt::print("No gradient exists here: {}. The layer returns a one-sided, finite value.\n", why);
  if (result.any(check::Verdict::unresolved))
    fmt::print("Unresolved: central differences of different steps disagree by more than {:g}.\n",
               o.tolerance);
  const bool paper = spec.gradient() == Gradient::paper;
  const char* judged = paper ? "paper's" : "exact";
  if (result.any(check::Verdict::off))
    fmt::print("The {} gradient is off: largest relative error {:.1e}, expected at most {:g}.\n",
               judged, paper ? result.largest_paper_error() : result.largest_exact_error(),
               o.tolerance);
  else if (result.any(check::Verdict::ok))
    fmt::print("Relative errors against central differences in double; {} within {:g}.\n", judged,
               o.tolerance);
}

/// docs/runs.md has its members.
std::string json_of(const LayerSpec& spec, const check::CheckOptions& o,
                    const check::CheckResult& result) {
  nlohmann::ordered_json out = {{"spec", to_string(spec)},
                                {"channels", o.channels},
                                {"samples", o.samples},
                                {"spectrum", name_of(o.spectrum)},
                                {"gap", o.gap},
                                {"at_start", o.at_start},
                                {"seed", o.seed},
                                {"tolerance", o.tolerance},
                                {"gradients", nlohmann::ordered_json::array()}};
  const auto or_null = [](bool there, double x) {
    return there ? nlohmann::ordered_json(x) : nlohmann::ordered_json();
  };
  for (const check::CheckRow& row : result.rows) {
    const bool known = compared(row);
    out["gradients"].push_back({{"of", row.of},
                                {"exact_error", or_null(known, row.exact_error)},
                                {"paper_error", or_null(known && row.paper_error.has_value(),
                                                        row.paper_error.value_or(0))},
                                {"resolution", or_null(known, row.resolution)},
                                {"verdict", verdict_text(row.verdict)}});
  }
  out["why_no_gradient"] = result.why_no_gradient;
  out["verdict"] =
      verdict_text(result.any(check::Verdict::off)          ? check::Verdict::off
                   : result.any(check::Verdict::unresolved) ? check::Verdict::unresolved
                   : result.any(check::Verdict::ok)         ? check::Verdict::ok
                                                            : check::Verdict::no_gradient);
  return io::json_text(out);
}

int check(const std::string& text, const check::CheckOptions& options, bool json) {
  const LayerSpec spec(text);
  const check::CheckResult result = check::check_gradient(spec, options);
  if (json)
    fmt::print("{}\n", json_of(spec, options, result));
  else
    print(spec, options, result);
  if (result.any(check::Verdict::off)) return 1;
  return result.any(check::Verdict::unresolved) ? unresolved_code : 0;
}

}  // namespace

void add_check(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "check", "Compares a layer's gradients, exact and the paper's, with central differences");
  // Names to numbers, with a message of our own: CLI11's lists the numbers too.
  const CLI::Validator spectrum_name(
      [](std::string& word) {
        const auto it = spectra.find(word);
        if (it == spectra.end()) return "expected distinct, close, equal or deficient, got " + word;
        word = std::to_string(static_cast<int>(it->second));
        return std::string();
      },
      "{distinct,close,equal,deficient}");
  auto text = std::make_shared<std::string>();
  auto o = std::make_shared<check::CheckOptions>();
  auto json = std::make_shared<bool>(false);
  verb->add_option("SPEC", *text, "Layer, as in 'LDL(1e-5)->W->Gamma'")->required();
  verb->add_option("--channels", o->channels, "Number of channels")
      ->capture_default_str()
      ->check(whole_number(1, 1024));
  verb->add_option("--samples", o->samples, "Number of samples; may be smaller than --channels")
      ->capture_default_str()
      ->check(whole_number(2, 1 << 20));
  verb->add_option("--spectrum", o->spectrum, "Eigenvalues of the covariance")
      ->transform(spectrum_name)
      ->default_str("distinct")
      ->type_name("NAME");
  verb->add_option("--gap", o->gap, "Distance within the pairs of --spectrum close")
      ->default_str(base::number_text(o->gap))
      ->check(number_between(0, 0.01));
  verb->add_flag("--at-start", o->at_start, "Parameters of a new layer, γ = 1, b = 0, S = 0");
  verb->add_option("--seed", o->seed, "Seed of data, parameters and loss")
      ->capture_default_str()
      ->check(seed_number());
  verb->add_option("--tolerance", o->tolerance, "Largest relative error that counts as right")
      ->default_str(base::number_text(o->tolerance))
      ->check(number_between(1e-16, 1));
  verb->add_flag("--json", *json, "JSON in place of the table");
  verb->footer(
      "The exact gradient is judged, or with gradient=paper in the spec the paper's. Exit code 1:\n"
      "the gradient is off; 3: the differences are too inexact to tell. Where no gradient exists\n"
      "(ties of pivots, eigenvalues at a floor) the reason is printed, and nothing is judged.");
  verb->callback(
      [&run, text, o, json] { run = [text, o, json] { return check(*text, *o, *json); }; });
}

}  // namespace orthobatch::cli
