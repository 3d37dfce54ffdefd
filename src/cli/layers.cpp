// orthobatch layers: the methods of the registry.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/registry.h"
#include "report/table.h"

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
  const std::string value = p.style == Parameter::Style::fraction
                                ? base::fraction_text(p.default_value)
                                : base::number_text(p.default_value);
  return p.name + "=" + value + ": " + p.meaning;
}

std::string text_of(const MethodInfo& info, size_t width) {
  std::vector<std::string> parts = {info.formula + ": " + info.description};
  for (const Parameter& p : info.parameters) parts.push_back(argument_text(p));
  parts.push_back("paper: " + info.paper);
  std::string out = signature(info) + "\n";
  for (const std::string& part : parts) {
    const std::vector<std::string> lines = report::wrap(part, width - 8);
    for (size_t i = 0; i < lines.size(); ++i) out += (i == 0 ? "    " : "      ") + lines[i] + "\n";
  }
  return out;
}

int show(const std::string& only) {
  const size_t width = std::clamp<size_t>(terminal_width(STDOUT_FILENO, 100), 60, 120);
  std::vector<std::string> names;
  std::string out;
  for (const MethodInfo& info : core::registry()) {
    names.push_back(info.name);
    if (only.empty() || info.name == only) out += (out.empty() ? "" : "\n") + text_of(info, width);
  }
  if (out.empty()) {
    fmt::print(stderr, "orthobatch layers: no method is named '{}', expected {}{}\n", only,
               base::join_choices(names), base::suggestion(only, names));
    return 2;
  }
  fmt::print("{}", out);
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
      app.add_subcommand("layers", "Lists the methods: formula, arguments, the paper's results");
  auto only = std::make_shared<std::string>();
  verb->add_option("METHOD", *only, "Show only this method")->default_str("all");
  verb->callback([&run, only] { run = [only] { return show(*only); }; });
}

}  // namespace orthobatch::cli
