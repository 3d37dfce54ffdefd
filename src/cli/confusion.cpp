#include "cli/confusion.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "report/table.h"

namespace orthobatch::cli {
namespace {

constexpr size_t most_columns = 30;  // beyond, a table is no use on a terminal
constexpr size_t short_name = 8;

/// A line for each class.
std::string errors_table(const data::Confusion& confusion,
                         const std::vector<std::string>& classes) {
  std::vector<std::vector<std::string>> rows = {
      {"label", "images", "error", "most often taken for"}};
  for (size_t label = 0; label < classes.size(); ++label) {
    std::vector<int64_t> wrong = confusion[label];
    const int64_t total = std::accumulate(wrong.begin(), wrong.end(), int64_t{0});
    const int64_t right = std::exchange(wrong[label], 0);
    const auto most = std::max_element(wrong.begin(), wrong.end());
    rows.push_back({classes[label], std::to_string(total), share_text(total - right, total),
                    *most > 0 ? fmt::format("{} ({})", classes[most - wrong.begin()], *most) : ""});
  }
  return report::format_table(rows);
}

}  // namespace

std::string share_text(int64_t part, int64_t whole) {
  return whole > 0 ? fmt::format("{:.2f} %",
                                 100.0 * static_cast<double>(part) / static_cast<double>(whole))
                   : "-";
}

std::string confusion_table(const data::Confusion& confusion,
                            const std::vector<std::string>& classes) {
  if (classes.size() > most_columns) return errors_table(confusion, classes);
  // Long names would make the columns wide: their numbers stand in for them there.
  const bool numbered = std::any_of(classes.begin(), classes.end(), [](const std::string& name) {
    return report::display_width(name) > short_name;
  });
  std::vector<std::vector<std::string>> rows = {{"label"}};
  for (size_t answer = 0; answer < classes.size(); ++answer)
    rows[0].push_back(numbered ? fmt::format("[{}]", answer) : classes[answer]);
  rows[0].insert(rows[0].end(), {"images", "error"});
  for (size_t label = 0; label < classes.size(); ++label) {
    std::vector<std::string> row = {numbered ? fmt::format("[{}] {}", label, classes[label])
                                             : classes[label]};
    int64_t total = 0;
    for (const int64_t n : confusion[label]) {
      row.push_back(n > 0 ? std::to_string(n) : ".");
      total += n;
    }
    row.push_back(std::to_string(total));
    row.push_back(share_text(total - confusion[label][label], total));
    rows.push_back(row);
  }
  return report::format_table(rows);
}

}  // namespace orthobatch::cli
