#include "cli/help.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/terminal.h"
#include "report/table.h"

namespace orthobatch::cli {
namespace {

constexpr size_t indent = 2, names_width = 28;
constexpr size_t least_width = 60, most_width = 100;

/// CLI11 has the value's type and what its validators say in one: "INT:1 to 1024".
std::pair<std::string, std::string> type_and_range(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

/// "{a,b,c}", as CLI11 lists choices, in words.
std::string in_words(const std::string& range) {
  if (range.size() < 2 || range.front() != '{' || range.back() != '}') return range;
  std::istringstream items(range.substr(1, range.size() - 2));
  std::vector<std::string> choices;
  for (std::string item; std::getline(items, item, ',');) choices.push_back(item);
  return base::join_choices(choices);
}

/// What stands for the value: "N", "X" for numbers, "FILE"; empty for a flag.
std::string value_name(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  const std::string type = type_and_range(option).first;
  if (type == "INT" || type == "UINT") return "N";
  return type == "FLOAT" ? "X" : type;
}

/// "required", "default 25"; empty where that is not said.
std::string default_text(const CLI::Option& option) {
  if (option.get_required()) return "required";
  const std::string value = option.get_default_str();
  return value.empty() ? "" : "default " + value;
}

/// NAMES  text, in lines that fit the terminal.
std::string entry(const std::string& names, const std::string& text) {
  const size_t width =
      std::clamp(terminal_width(STDOUT_FILENO, most_width), least_width, most_width);
  const std::vector<std::string> lines = report::wrap(text, width - indent - names_width);
  std::string out = std::string(indent, ' ') + names;
  const bool beside = names.size() + 1 < names_width;
  if (!beside || lines.empty()) out += "\n";
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t before = i == 0 && beside ? names_width - names.size() : indent + names_width;
    out += std::string(before, ' ') + lines[i] + "\n";
  }
  return out;
}

/// "OPTIONS" as "Options": CLI11's headings are in capitals from version 2.5 on.
std::string title_case(std::string text) {
  std::transform(text.begin() + 1, text.end(), text.begin() + 1,
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string names = option->get_name(is_positional, !is_positional);
  std::string text = option->get_description(), note;
  if (const std::string value = value_name(*option); !value.empty()) {
    if (!is_positional) names += " " + value;
    if (option->get_expected_max() >= CLI::detail::expected_max_vector_size &&
        option->get_allow_extra_args())
      names += " ...";
    for (const std::string& part :
         {in_words(type_and_range(*option).second), default_text(*option)})
      if (!part.empty()) note += (note.empty() ? "" : "; ") + part;
    if (!note.empty()) text += " (" + note + ")";
  }
  return entry(names, text);
}

std::string HelpFormatter::make_group(std::string group, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  std::string out = "\n" + title_case(group) + ":\n";
  for (const CLI::Option* option : options) out += make_option(option, is_positional);
  return out;
}

std::string HelpFormatter::make_subcommands(const CLI::App* app, CLI::AppFormatMode) const {
  std::string out;
  for (const CLI::App* verb : app->get_subcommands({}))
    out += entry(verb->get_name(), verb->get_description());
  return out.empty() ? out : "\nSubcommands:\n" + out;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string usage = CLI::detail::trim_copy(make_usage(app, std::move(name)));
  if (usage.rfind("Usage: ", 0) != 0) usage = "Usage: " + usage;
  const std::string footer = app->get_footer();
  return app->get_description() + "\n" + usage + "\n" + make_positionals(app) +
         make_groups(app, mode) + make_subcommands(app, mode) +
         (footer.empty() ? "" : "\n" + footer + "\n");
}

}  // namespace orthobatch::cli
