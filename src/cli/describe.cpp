#include "cli/describe.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/registry.h"
#include "io/file.h"
#include "run/experiment.h"

namespace orthobatch::cli {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(at, begin);
    out.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return out;
}

bool in_capitals(const std::string& word) {
  return std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isupper(c); }) &&
         std::none_of(word.begin(), word.end(), [](unsigned char c) { return std::islower(c); });
}

void add_kind(const std::string& kind, OptionEntry& entry) {
  const auto add = [&](const std::vector<std::string>& words) {
    entry.choices.insert(entry.choices.end(), words.begin(), words.end());
  };
  if (kind == "SPEC" || kind == "METHOD") {
    for (const core::MethodInfo& method : core::registry()) entry.choices.push_back(method.name);
  } else if (kind == "EXPERIMENT") {
    add(experiment_names());
    entry.files = true;
  } else {
    const char* const no_files[] = {"INT", "UINT", "FLOAT", "BOOLEAN", "KEY=VALUE", "PATTERN"};
    entry.files |= std::find(std::begin(no_files), std::end(no_files), kind) == std::end(no_files);
  }
}

/// What the type name says: kind, or words there are, and behind colons what checks add.
void read_type(const std::string& type_name, OptionEntry& entry) {
  // Words of a list may have colons.
  const size_t brace = type_name.find(":{");
  const std::vector<std::string> parts = split(type_name.substr(0, brace), ':');
  entry.value = parts.front();
  for (size_t i = 1; i < parts.size(); ++i)
    entry.range += (entry.range.empty() ? "" : ", ") + parts[i];
  if (brace != std::string::npos) {
    const size_t end = type_name.rfind('}');
    entry.choices = split(type_name.substr(brace + 2, end - brace - 2), ',');
    entry.value = fmt::format("{}", fmt::join(entry.choices, "|"));
    return;
  }
  if (entry.value.find('|') == std::string::npos) {
    const bool own_name = entry.value == "TEXT" && entry.names.front()[0] != '-';
    add_kind(own_name ? entry.names.front() : entry.value, entry);
    return;
  }
  for (const std::string& word : split(entry.value, '|'))
    if (in_capitals(word))
      add_kind(word, entry);
    else
      entry.choices.push_back(word);
}

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  if (entry.names.empty()) entry.names.push_back(option.get_name(/*positional=*/true));
  entry.help = option.get_description();
  entry.preset = option.get_default_str();
  entry.required = option.get_required();
  const int values = option.get_items_expected_max();
  entry.repeated =
      values > 1 || option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  if (values > 0) read_type(option.get_type_name(), entry);
  return entry;
}

VerbEntry describe_below(const CLI::App& app, const std::vector<std::string>& path) {
  VerbEntry entry;
  entry.path = path;
  entry.help = app.get_description();
  entry.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())
      (option->nonpositional() ? entry.options : entry.positionals).push_back(entry_of(*option));
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    if (verb->get_group().empty()) continue;
    std::vector<std::string> below = path;
    below.push_back(verb->get_name());
    entry.verbs.push_back(describe_below(*verb, below));
  }
  return entry;
}

void collect(const VerbEntry& verb, std::vector<const VerbEntry*>& out) {
  for (const VerbEntry& below : verb.verbs) {
    out.push_back(&below);
    collect(below, out);
  }
}

}  // namespace

VerbEntry describe(const CLI::App& app) { return describe_below(app, {}); }

std::vector<const VerbEntry*> all_verbs(const VerbEntry& program) {
  std::vector<const VerbEntry*> out;
  collect(program, out);
  return out;
}

std::string path_text(const VerbEntry& verb) {
  return fmt::format("{}", fmt::join(verb.path, " "));
}

std::string short_help(const std::string& help) {
  constexpr size_t longest = 60;
  std::string text = help.substr(0, help.find_first_of("\n;("));
  text = text.substr(0, text.find(". "));
  if (text.size() > longest) text = text.substr(0, text.rfind(' ', longest)) + " ...";
  while (!text.empty() && (text.back() == ' ' || text.back() == ',')) text.pop_back();
  return text;
}

void print_or_write(const std::string& path, const std::string& text) {
  if (path.empty())
    fmt::print("{}", text);
  else
    write_output(path, text);
}

}  // namespace orthobatch::cli
