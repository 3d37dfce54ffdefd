#pragma once
// What every option's value must be, said in our own words: "expected …, found …".

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

namespace orthobatch::cli {

/// A mistake on the command line that is found after it was parsed: exit code 2.
struct UsageError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
/// Does `work`; what that refuses was wrong on the command line.
template <typename Work>
auto or_usage_error(const Work& work) {
  try {
    return work();
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

/// Nothing but digits, and in range.
CLI::Validator whole_number(int64_t low, int64_t high);
/// From 0 on; what two processes are to agree on must not be cut to fit.
CLI::Validator seed_number();
/// In range, both ends with it; no NaN.
CLI::Validator number_between(double low, double high);
/// The same without the lower, or the upper end.
CLI::Validator number_above(double low, double high);
CLI::Validator number_below(double low, double high);

/// --threads, the same for all verbs that compute; see all_threads().
constexpr const char* threads_text = "Number of threads; 0: all cores";
CLI::Option* add_threads(CLI::App& verb, int& threads);

/// --data-dir, the same for all verbs that read data.
CLI::Option* add_data_directory(CLI::App& verb, std::string& directory);

/// --follow-links, the same for all of them.
void add_follow_links(CLI::App& verb, bool& follow);

/// An empty value, as of a shell's variable that is not set, is no value: refused for every option
/// of every verb.
void refuse_empty_values(CLI::App& app);

/// What to say of a word that no option takes. After the one value of an option that may be given
/// again it says to give it again.
std::string unexpected_word(const CLI::App& app, int argc, char** argv);

/// Lines of text, made printable: all that may hold names of files, or what is in them, goes here.
void put(const std::string& text, std::FILE* to = stdout);
template <typename... T>
void say(fmt::format_string<T...> format, T&&... values) {
  put(fmt::format(format, std::forward<T>(values)...));
}

/// One line on standard error. Does not throw where nobody can read it.
void complain(const std::string& text);
/// From now on each such line begins with a name.
void complain_as(const std::string& name);

}  // namespace orthobatch::cli
