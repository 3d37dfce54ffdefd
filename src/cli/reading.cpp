#include "cli/reading.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <thread>

#include "base/text.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "data/image_size.h"

namespace orthobatch::cli {
namespace {

constexpr size_t most_lines = 20;

/// How far the reading is, on a terminal.
data::Progressed shown_on(TerminalLine& status, const char* what) {
  return [&status, what](int64_t done, int64_t all) {
    if (status.due())
      status.show(fmt::format("{}: {} of {}", what, count_text(done), count_text(all)));
  };
}

/// The first of them, and how many more there are.
void tell_lines(const std::vector<std::string>& lines, const char* what,
                const std::function<void(const std::string&)>& tell) {
  for (size_t i = 0; i < std::min(most_lines, lines.size()); ++i) tell(lines[i]);
  if (lines.size() > most_lines)
    tell(fmt::format("and {} more such {}", count_text(lines.size() - most_lines), what));
}

void tell_bad_files(const data::DataSet& data) {
  tell_lines(data.bad, "files", complain);
  const int64_t good = data.train.count() + data.test.count();
  complain(fmt::format("{}: {} file{} skipped, {} images used", base::printable(data.name),
                       count_text(data.bad.size()), data.bad.size() == 1 ? "" : "s",
                       count_text(good)));
}

}  // namespace

CLI::Option* add_image_size(CLI::App& verb, std::string& size) {
  return verb
      .add_option("--image-size", size,
                  "Size to which the images of a folder are scaled, 1x1 to 4096x4096")
      ->type_name("WxH")
      ->check(CLI::Validator(
          [](std::string& text) {
            const std::string none;
            try {
              data::parse_image_size(text, none);
            } catch (const std::invalid_argument& error) {
              return std::string(error.what()).substr(2);  // ": expected …"
            }
            return none;
          },
          ""))
      ->default_str("the most frequent size, limited to 16 to 64");
}

data::DataSet read_data(data::DataRequest request, const Telling& telling) {
  data::DataSet data;
  {
    TerminalLine status(!telling.quiet && !telling.silent);
    request.progressed = shown_on(status, "reading images");
    data = data::load_data(request);
  }
  if (!telling.quiet && !telling.silent)
    tell_lines(data.notes, "notes", [](const std::string& note) { put(note + "\n", stderr); });
  if (!telling.silent && !data.bad.empty()) tell_bad_files(data);
  if (telling.strict && !data.bad.empty())
    throw std::invalid_argument(
        fmt::format("--strict: {}: expected only images, found {} file{} that cannot be used",
                    base::printable(data.name), data.bad.size(), data.bad.size() == 1 ? "" : "s"));
  return data;
}

data::OwnSurvey look_at_data(data::DataRequest request, const Telling& telling) {
  TerminalLine status(!telling.quiet && !telling.silent);
  request.progressed = shown_on(status, "looking at images");
  return data::survey_own(request);
}

int all_threads(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::string count_text(int64_t n) {
  std::string digits = std::to_string(n);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, ",");
  return digits;
}

std::string shape_text(const data::DataSet& data) {
  return fmt::format("{}×{} pixels, {}, {} classes", data.test.width, data.test.height,
                     data.test.channels == 1 ? "grey" : "colour", data.classes.size());
}

}  // namespace orthobatch::cli
