// orthobatch layers: the methods of the registry.

#include <fmt/core.h>

#include "cli/table.h"
#include "cli/verbs.h"
#include "core/registry.h"
#include "core/text.h"

namespace orthobatch::cli {
namespace {

std::string signature(const MethodInfo& info) {
  std::string out;
  for (const Parameter& p : info.parameters) {
    if (!p.positional) continue;
    out += (out.empty() ? "" : ",") + p.name;
  }
  return info.name + "(" + out + ")";
}

std::string parameter_text(const Parameter& p) {
  if (p.style == Parameter::Style::flag) return p.name + ": " + p.meaning;
  const std::string value = p.style == Parameter::Style::fraction ? fraction_text(p.default_value)
                                                                  : number_text(p.default_value);
  return p.name + " = " + value + ": " + p.meaning;
}

void print(const MethodInfo& info) {
  const size_t width = std::min<size_t>(terminal_width(), 110);
  const auto line = [&](const char* label, const std::string& text) {
    fmt::print("  {:<11}{}\n", label, wrap(text, width, 13));
  };
  fmt::print("{}\n", signature(info));
  line("", info.description);
  line("T", info.formula);
  std::string parameters;
  for (const Parameter& p : info.parameters)
    parameters += (parameters.empty() ? "" : "; ") + parameter_text(p);
  line("arguments", parameters);
  line("paper", info.paper);
  fmt::print("\n");
}

int show(const std::string& only) {
  if (!only.empty()) {
    std::vector<std::string> names;
    for (const MethodInfo& info : registry()) names.push_back(info.name);
    if (std::find(names.begin(), names.end(), only) == names.end()) {
      fmt::print(stderr, "orthobatch layers: no method is named '{}', expected {}{}\n", only,
                 join_choices(names), suggestion(only, names));
      return 2;
    }
  }
  if (only.empty())
    fmt::print("Z = R T (X − μ) + b, with T = T(Σ) by method and R = Γ; in `SPEC->W` R = W and in "
               "`SPEC->W->Gamma`\nR = Γ W, W a learned rotation. Every method also takes groups=g "
               "(g channels at a time, each group alone)\nand, where the paper prints a gradient, "
               "gradient=paper. Test errors are the paper's.\n\n");
  for (const MethodInfo& info : registry())
    if (only.empty() || info.name == only) print(info);
  return 0;
}

}  // namespace

void add_layers(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("layers", "The methods: formula, arguments, what the paper found");
  auto only = std::make_shared<std::string>();
  verb->add_option("METHOD", *only, "Show this one alone");
  verb->callback([&run, only] { run = [only] { return show(*only); }; });
}

}  // namespace orthobatch::cli
