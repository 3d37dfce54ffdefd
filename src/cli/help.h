#pragma once
// What --help says of options: what they are, what they take, what they are without being given.
// All of it is in the options themselves: description, type name, validators, default string.

#include <CLI/CLI.hpp>

#include <string>

namespace orthobatch::cli {

/// An option as "NAMES VALUE  description (range; default)", in lines that fit the terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace orthobatch::cli
