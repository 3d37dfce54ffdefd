#include "cli/run_text.h"

#include <unistd.h>

#include <algorithm>

#include "base/table.h"
#include "io/terminal.h"

namespace orthobatch::cli {
namespace {

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    widest = std::max(widest, display_width(text.substr(at, end - at)));
    at = end + 1;
  }
  return widest;
}

}  // namespace

std::string printable(std::string text) {
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  std::replace_if(text.begin(), text.end(), control, '?');
  return text;
}

std::string folder_name(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return printable(name.substr(name.rfind('/') + 1));
}

std::string gap_text() { return locale_is_utf8() ? "…" : ".."; }

std::string run_table(const std::vector<RunColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows) {
  // A name that says nothing any more is worse than a column less.
  constexpr size_t no_limit = 1 << 20, least = 18, least_of_all = 10;
  const size_t width = terminal_width(STDOUT_FILENO, no_limit);
  int most = 0;
  for (const RunColumn& column : columns) most = std::max(most, column.leaves);
  for (int left = 0;; ++left) {
    std::vector<std::vector<std::string>> kept(rows.size() + 1);
    std::vector<size_t> cut;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].leaves > 0 && columns[c].leaves <= left) continue;
      if (columns[c].may_be_cut) cut.push_back(kept[0].size());
      kept[0].emplace_back(columns[c].name);
      for (size_t i = 0; i < rows.size(); ++i) kept[i + 1].push_back(rows[i][c]);
    }
    const std::string table =
        format_fitted_table(kept, width, cut, left < most ? least : least_of_all, gap_text());
    if (left == most || widest_line(table) <= width) return table;
  }
}

}  // namespace orthobatch::cli
