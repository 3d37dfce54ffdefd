// orthobatch completion: what a shell offers after the words that are there, for bash and fish;
// zsh's is in completion_zsh.cpp.

#include <fmt/core.h>
#include <fmt/format.h>

#include "cli/describe.h"
#include "cli/verbs.h"

namespace orthobatch::cli {
namespace {

/// In single quotes, for fish, where a backslash stays one before anything but these.
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out + "'";
}

std::string bash_words(const OptionEntry& option) {
  return fmt::format("{}{}{}", fmt::join(option.choices, " "),
                     option.files && !option.choices.empty() ? " " : "",
                     option.files ? "@files" : "");
}

/// The lines of a verb in the table: what follows each option, what its positionals are, its
/// options.
std::string bash_lines(const VerbEntry& verb) {
  std::string out, names;
  const std::string path = path_text(verb);
  for (const OptionEntry& option : verb.options) {
    names += (names.empty() ? "" : " ") + option.names.back();
    if (option.value.empty()) continue;
    std::string keys;
    for (const std::string& name : option.names)
      keys += fmt::format("{}'{}/{}'", keys.empty() ? "" : " | ", path, name);
    out += fmt::format("    {}) words='{}' ;;\n", keys, bash_words(option));
  }
  if (!verb.verbs.empty()) {
    std::string below;
    for (const VerbEntry& other : verb.verbs)
      below += (below.empty() ? "" : " ") + other.path.back();
    out += fmt::format("    '{}/0') words='{}' ;;\n", path, below);
  }
  for (size_t i = 0; i < verb.positionals.size(); ++i) {
    const OptionEntry& positional = verb.positionals[i];
    out += fmt::format("    '{}/{}) words='{}' ;;\n", path,
                       positional.repeated ? "'[0-9]*" : fmt::format("{}'", i),
                       bash_words(positional));
  }
  return out + fmt::format("    '{}/options') words='{}' ;;\n", path, names);
}

const char* const bash_function = R"(
_orthobatch() {
  local word=${COMP_WORDS[COMP_CWORD]} verb= place=0 takes= words= before i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    before=${COMP_WORDS[i]}
    if [[ $before == '=' ]]; then  # --option=value is three words
      continue
    elif [[ -n $takes ]]; then
      takes=
    elif [[ $before == -* ]]; then
      _orthobatch_words "$verb/$before" && takes=$before
    elif _orthobatch_is_verb "${verb:+$verb }$before"; then
      verb="${verb:+$verb }$before"
    else
      place=$((place + 1))
    fi
  done
  [[ $word == '=' ]] && word=
  word=${word#[\"\']}
  if [[ -n $takes ]]; then
    _orthobatch_words "$verb/$takes"
  elif [[ $word == -* ]] || ! _orthobatch_words "$verb/$place"; then
    _orthobatch_words "$verb/options"
  fi
  mapfile -t COMPREPLY < <(
    compgen -W "${words//@files/}" -- "$word"
    [[ $words == *@files* ]] && compgen -f -- "$word"
  )
  [[ $words != *@files* ]] || compopt -o filenames
}
complete -F _orthobatch orthobatch
)";

std::string fish_values(const OptionEntry& option) {
  std::string out = option.files ? " -r -F" : " -x";
  if (!option.choices.empty())
    out += fmt::format(" -a {}", fish_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
  return out;
}

/// Where a verb's own words may stand: after all words of its path, and none of those below it yet.
std::string fish_condition(const VerbEntry& verb) {
  std::string out;
  for (const std::string& word : verb.path)
    out += (out.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  if (verb.verbs.empty()) return out;
  out += out.empty() ? "not __fish_seen_subcommand_from" : "; and not __fish_seen_subcommand_from";
  for (const VerbEntry& below : verb.verbs) out += " " + below.path.back();
  return out;
}

std::string fish_lines(const VerbEntry& verb) {
  std::string out;
  const std::string start =
      fmt::format("complete -c orthobatch -n {}", fish_quoted(fish_condition(verb)));
  for (const VerbEntry& below : verb.verbs)
    out += fmt::format("{} -f -a {} -d {}\n", start, below.path.back(),
                       fish_quoted(short_help(below.help)));
  for (const OptionEntry& positional : verb.positionals) {
    if (!positional.choices.empty())
      out += fmt::format("{} -a {}\n", start,
                         fish_quoted(fmt::format("{}", fmt::join(positional.choices, " "))));
    if (positional.files) out += start + " -F\n";
  }
  for (const OptionEntry& option : verb.options) {
    out += start;
    for (const std::string& name : option.names)
      out += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.value.empty()) out += fish_values(option);
    out += fmt::format(" -d {}\n", fish_quoted(short_help(option.help)));
  }
  return out;
}

}  // namespace

std::string bash_completion(const VerbEntry& program) {
  std::string out =
      "# bash completion for orthobatch, written by: orthobatch completion bash\n\n"
      "# What may follow an option, what the n-th word after a verb may be, a verb's options.\n"
      "_orthobatch_words() {\n  case $1 in\n" +
      bash_lines(program);
  std::string paths;
  for (const VerbEntry* verb : all_verbs(program)) {
    out += bash_lines(*verb);
    paths += fmt::format("{}'{}'", paths.empty() ? "" : " | ", path_text(*verb));
  }
  out += "    *) return 1 ;;\n  esac\n}\n\n_orthobatch_is_verb() {\n  case $1 in\n    " + paths +
         ") ;;\n    *) return 1 ;;\n  esac\n}\n";
  return out + bash_function;
}

std::string fish_completion(const VerbEntry& program) {
  std::string out =
      "# fish completion for orthobatch, written by: orthobatch completion fish\n\n"
      "complete -c orthobatch -f\n" +
      fish_lines(program);
  for (const VerbEntry* verb : all_verbs(program)) out += fish_lines(*verb);
  return out;
}

void add_completion(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "completion", "What a shell offers on Tab: its completion of verbs, options and values");
  auto shell = std::make_shared<std::string>();
  auto out = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "bash, fish or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh"}));
  verb->add_option("-o,--out", *out, "File to write")
      ->type_name("FILE")
      ->default_str("standard output");
  verb->footer("For the bash that is running: source <(orthobatch completion bash)");
  verb->callback([&app, &run, shell, out] {
    run = [&app, shell, out] {
      const VerbEntry program = describe(app);
      print_or_write(*out, *shell == "bash"   ? bash_completion(program)
                           : *shell == "fish" ? fish_completion(program)
                                              : zsh_completion(program));
      return 0;
    };
  });
}

}  // namespace orthobatch::cli
