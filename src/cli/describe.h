#pragma once
// The command line as data: what CLI::App knows of verbs and options, for the man page and the
// completions. A type name of an option says what its value may be: TEXT:{a,b} (CLI::IsMember) and
// a|b list the words there are; SPEC, METHOD and EXPERIMENT stand for the names the program knows;
// numbers have nothing to list; what else there is may be a file. In a list, words in capitals are
// such kinds: mnist|svhn|DIR.

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace orthobatch::cli {

struct OptionEntry {
  std::vector<std::string> names;    ///< "-o", "--out"; of a positional its one word, "RUN"
  std::string value;                 ///< "INT", "cl|nchw|both"; empty: takes none
  std::string range;                 ///< "1 to 1024"
  std::vector<std::string> choices;  ///< words that a completion offers
  bool files = false;                ///< it offers files too
  std::string help;
  std::string preset;  ///< the value where none is given, if the option says it
  bool required = false;
  bool repeated = false;  ///< may be given again, or takes several
};

struct VerbEntry {
  std::vector<std::string> path;  ///< {"data", "get"}; of the program itself {}
  std::string help, footer;
  std::vector<OptionEntry> options, positionals;
  std::vector<VerbEntry> verbs;
};

/// All that is not hidden (CLI's way: an empty group), in the order it was added.
VerbEntry describe(const CLI::App& app);

/// The verbs below it, and below those, each before its own; itself not.
std::vector<const VerbEntry*> all_verbs(const VerbEntry& program);

/// "data get"
std::string path_text(const VerbEntry& verb);

/// The help as the few words that fit beside a completion.
std::string short_help(const std::string& help);

/// To the file that the user names, or where it is empty to standard output.
void print_or_write(const std::string& path, const std::string& text);

/// The completions, each a file of its own.
std::string bash_completion(const VerbEntry& program);
std::string fish_completion(const VerbEntry& program);
std::string zsh_completion(const VerbEntry& program);

}  // namespace orthobatch::cli
