#pragma once
// What --help says of options: what they are, what they take, what they are without being given.
// All of it is in the options themselves (description, type name, validators, default string), so
// that whatever else describes the command line can say the same.

#include <CLI/CLI.hpp>

#include <string>

namespace orthobatch::cli {

/// What stands for the value: "N", "X" for numbers, "FILE"; empty for a flag.
std::string value_name(const CLI::Option& option);

/// What it may be: "1 to 1024", "cl, nchw or both"; empty where that is not said.
std::string range_text(const CLI::Option& option);

/// "required", "default 25"; empty where that is not said.
std::string default_text(const CLI::Option& option);

/// An option as "NAMES VALUE  description (range; default)", in lines that fit the terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace orthobatch::cli
