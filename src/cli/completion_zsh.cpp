// zsh's completion: a function for the program and each verb, which hands _arguments what may stand
// where.

#include <fmt/core.h>
#include <fmt/format.h>

#include "cli/describe.h"

namespace orthobatch::cli {
namespace {

/// Inside single quotes, and inside the brackets or between the colons of a spec of _arguments.
std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string zsh_action(const OptionEntry& option) {
  const std::string words = fmt::format("{}", fmt::join(option.choices, " "));
  if (option.choices.empty()) return option.files ? "_files" : " ";
  return option.files
             ? fmt::format("{{_alternative \"words\\:word\\:({})\" \"files\\:file\\:_files\"}}",
                           words)
             : fmt::format("({})", words);
}

std::string zsh_option(const OptionEntry& option) {
  std::string out;
  for (const std::string& name : option.names) {
    const bool joined = !option.value.empty() && name[1] == '-';  // --name=value too
    out += fmt::format(" \\\n    '{}{}{}[{}]", option.repeated ? "*" : "", name, joined ? "=" : "",
                       zsh_escaped(short_help(option.help)));
    if (!option.value.empty())
      out += fmt::format(":{}:{}", zsh_escaped(option.value), zsh_action(option));
    out += "'";
  }
  return out;
}

std::string function_name(const VerbEntry& verb) {
  std::string out = "_orthobatch";
  for (const std::string& word : verb.path) out += "_" + word;
  return out;
}

std::string zsh_function(const VerbEntry& verb) {
  std::string out = function_name(verb) + "() {\n";
  std::string arguments;
  for (const OptionEntry& option : verb.options) arguments += zsh_option(option);
  if (verb.verbs.empty()) {
    for (const OptionEntry& positional : verb.positionals)
      arguments += fmt::format(" \\\n    '{}:{}:{}'", positional.repeated ? "*" : "",
                               zsh_escaped(positional.names.front()), zsh_action(positional));
    return out + "  _arguments" + arguments + "\n}\n\n";
  }
  out += "  local curcontext=$curcontext state line\n  local -a verbs\n  verbs=(\n";
  for (const VerbEntry& below : verb.verbs)
    out += fmt::format("    '{}:{}'\n", below.path.back(), zsh_escaped(short_help(below.help)));
  out +=
      "  )\n  _arguments -C" + arguments + " \\\n    '1:verb:->verb' \\\n    '*::word:->words'\n" +
      "  case $state in\n    verb) _describe verb verbs ;;\n    words)\n      case $words[1] in\n";
  for (const VerbEntry& below : verb.verbs)
    out += fmt::format("        {}) {} ;;\n", below.path.back(), function_name(below));
  return out + "      esac ;;\n  esac\n}\n\n";
}

}  // namespace

std::string zsh_completion(const VerbEntry& program) {
  std::string out =
      "#compdef orthobatch\n# Written by: orthobatch completion zsh\n\n" + zsh_function(program);
  for (const VerbEntry* verb : all_verbs(program)) out += zsh_function(*verb);
  return out +
         "if [ \"$funcstack[1]\" = _orthobatch ]; then\n  _orthobatch \"$@\"\nelse\n"
         "  compdef _orthobatch orthobatch\nfi\n";
}

}  // namespace orthobatch::cli
