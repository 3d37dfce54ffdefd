// orthobatch layers: the methods of the registry.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "cli/verbs.h"
#include "core/registry.h"
#include "io/terminal.h"

namespace orthobatch::cli {
namespace {

using core::MethodInfo;
using core::Parameter;

std::string signature(const MethodInfo& info) {
  std::string out;
  for (const Parameter& p : info.parameters) {
    if (!p.positional) continue;
    out += (out.empty() ? "" : ",") + p.name;
  }
  return info.name + "(" + out + ")";
}

std::string argument_text(const Parameter& p) {
  if (p.style == Parameter::Style::flag) return p.name + ": " + p.meaning;
  const std::string value = p.style == Parameter::Style::fraction ? fraction_text(p.default_value)
                                                                  : number_text(p.default_value);
  return p.name + "=" + value + ": " + p.meaning;
}

std::vector<std::string> row_of(const MethodInfo& info) {
  std::string arguments;
  for (const Parameter& p : info.parameters)
    arguments += (arguments.empty() ? "" : "; ") + argument_text(p);
  return {signature(info), info.formula + ": " + info.description, arguments, info.paper};
}

int show(const std::string& only) {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> rows = {{"layer", "T, the whitening transform",
                                                 "arguments and their defaults",
                                                 "what the paper found"}};
  for (const MethodInfo& info : core::registry()) {
    names.push_back(info.name);
    if (only.empty() || info.name == only) rows.push_back(row_of(info));
  }
  if (rows.size() == 1) {
    fmt::print(stderr, "orthobatch layers: no method is named '{}', expected {}{}\n", only,
               join_choices(names), suggestion(only, names));
    return 2;
  }
  const size_t width = std::clamp<size_t>(terminal_width(STDOUT_FILENO, 100), 80, 140), first = 20;
  const size_t rest = (width - first - 6) / 3;
  fmt::print("{}", format_wrapped_table(rows, {first, rest, rest, rest}));
  if (only.empty())
    fmt::print(
        "\nZ = R T (X - mean) + b with R = Gamma, a learned scale per channel. LAYER->W: R = W, a "
        "learned rotation;\nLAYER->W->Gamma: R = Gamma W. Every layer also takes group_size=g (g "
        "channels at a time, each group whitened\nalone) and, where the paper prints a gradient, "
        "gradient=paper. Percentages are the paper's test errors.\n");
  return 0;
}

}  // namespace

void add_layers(CLI::App& app, Run& run) {
  auto* verb =
      app.add_subcommand("layers", "The methods: formula, arguments, what the paper found");
  auto only = std::make_shared<std::string>();
  verb->add_option("METHOD", *only, "Show this one alone")->default_str("all");
  verb->callback([&run, only] { run = [only] { return show(*only); }; });
}

}  // namespace orthobatch::cli
