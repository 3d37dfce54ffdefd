#pragma once
// What --help says of options: what they are, what they take, what they are without being given.
// All of it is in the options themselves: description, type name, validators, default string.

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace orthobatch::cli {

/// An option as "NAMES VALUE  description (range; default)", in lines that fit the terminal. The
/// same for every version of CLI11, as the man page and the completion are made of it.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace orthobatch::cli
