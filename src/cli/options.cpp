#include "cli/options.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace orthobatch::cli {
namespace {

std::string complaint_name;

template <typename Number>
bool parse_whole(const std::string& text, Number& out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && stop == end;
}

CLI::Option* option_named(const std::vector<CLI::Option*>& options, std::string_view word) {
  for (CLI::Option* option : options)
    if (option->nonpositional() && option->check_name(std::string(word.substr(0, word.find('=')))))
      return option;
  return nullptr;
}

CLI::Validator number_that(const std::function<bool(double)>& fits, const std::string& range) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (parse_whole(text, value) && fits(value)) return std::string();
        return fmt::format("expected a number, {}, found {}", range, text);
      },
      range);
}

}  // namespace

CLI::Validator whole_number(int64_t low, int64_t high) {
  const std::string range = fmt::format("{} to {}", low, high);
  return CLI::Validator(
      [=](std::string& text) {
        int64_t value = 0;
        if (parse_whole(text, value) && value >= low && value <= high) return std::string();
        return fmt::format("expected a whole number, {}, found {}", range, text);
      },
      range);
}

CLI::Validator seed_number() { return whole_number(0, std::numeric_limits<int64_t>::max()); }

CLI::Validator number_between(double low, double high) {
  return number_that([=](double x) { return x >= low && x <= high; },
                     fmt::format("{} to {}", base::number_text(low), base::number_text(high)));
}

CLI::Validator number_above(double low, double high) {
  return number_that(
      [=](double x) { return x > low && x <= high; },
      fmt::format("above {}, up to {}", base::number_text(low), base::number_text(high)));
}

CLI::Validator number_below(double low, double high) {
  return number_that(
      [=](double x) { return x >= low && x < high; },
      fmt::format("{} to below {}", base::number_text(low), base::number_text(high)));
}

CLI::Option* add_threads(CLI::App& verb, int& threads) {
  return verb.add_option("--threads", threads, threads_text)
      ->check(whole_number(0, 1024))
      ->default_str("0");
}

CLI::Option* add_data_directory(CLI::App& verb, std::string& directory) {
  return verb
      .add_option("--data-dir", directory,
                  "Folder of the data sets; for a run on your own images, the folder where they "
                  "are now")
      ->type_name("DIR")
      ->default_str("$ORTHOBATCH_DATA, else the cache folder");
}

void add_follow_links(CLI::App& verb, bool& follow) {
  verb.add_flag("--follow-links", follow, "Follow links that lead out of a folder of images");
}

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0)
      option->check(CLI::Validator(
          [](std::string& text) {
            return text.empty() ? std::string("expected a value, found an empty text")
                                : std::string();
          },
          ""));
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    refuse_empty_values(*verb);
}

std::string unexpected_word(const CLI::App& app, int argc, char** argv) {
  const std::string word = app.remaining(/*recurse=*/true).at(0);
  std::vector<CLI::Option*> options;
  for (CLI::App* verb : app.get_subcommands())
    for (CLI::Option* option : verb->get_options()) options.push_back(option);
  std::string hint;
  for (int i = 1; i < argc && word != argv[i]; ++i)
    if (argv[i][0] == '-') {
      const CLI::Option* before = option_named(options, argv[i]);
      const bool again =
          before && before->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
      hint = again ? fmt::format("; for several, give the option again: {0} {1} {0} {2}",
                                 before->get_name(), argv[i + 1], word)
                   : "";
    }
  std::vector<std::string> names;
  for (const CLI::Option* option : options)
    if (option->nonpositional()) names.push_back("--" + option->get_lnames().at(0));
  return fmt::format("unexpected argument: {}{}", word,
                     hint.empty() ? base::suggestion(word, names) : hint);
}

void complain(const std::string& text) {
  put("orthobatch: " + complaint_name + text + "\n", stderr);
}

void put(const std::string& text, std::FILE* to) {
  std::fputs(base::printable(text, "\n").c_str(), to);
}

void complain_as(const std::string& name) { complaint_name = name; }

}  // namespace orthobatch::cli
