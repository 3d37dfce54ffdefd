#include "report/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "base/text.h"

namespace orthobatch::report {
namespace {

constexpr const char* gap = "..";  // stands for what was cut out of a cell
constexpr size_t least_cut = 10;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::vector<size_t> column_widths(const TextRows& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  return widths;
}

std::string first_columns(const std::string& text, size_t columns) {
  size_t end = text.size();
  while (end > 0 && (display_width(text.substr(0, end)) > columns ||
                     (end < text.size() && continues(text[end]))))
    --end;
  return text.substr(0, end);
}

std::string without_middle(const std::string& text, size_t width) {
  const size_t all = display_width(text);
  if (all <= width) return text;
  const size_t kept = width - 2, last = kept / 2;
  return first_columns(text, kept - last) + gap +
         text.substr(first_columns(text, all - last).size());
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

/// As code, which a name with marks of its own would end.
std::string markdown_code(const std::string& name) {
  const std::string text = markdown_text(name);
  return text == name ? "`" + name + "`" : "<code>" + text + "</code>";
}

/// A name may have ends of lines in it.
TextRows printable_cells(TextRows rows) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = base::printable(cell);
  return rows;
}

}  // namespace

nlohmann::ordered_json six_digits(double x) {
  if (!std::isfinite(x)) return nullptr;
  const double y = std::strtod(fmt::format("{:.6g}", x).c_str(), nullptr);
  return y == std::floor(y) && std::abs(y) < 1e15 ? nlohmann::ordered_json(static_cast<int64_t>(y))
                                                  : nlohmann::ordered_json(y);
}
TextRows text_rows(const Table& table) {
  TextRows out(table.rows.size() + 1);
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const Column& column = table.columns[c];
    if (column.text.empty()) continue;
    out[0].push_back(column.text);
    for (size_t r = 0; r < table.rows.size(); ++r) out[r + 1].push_back(table.rows[r][c].text);
  }
  return out;
}

std::string markdown_text(const std::string& text) {
  std::string out;
  for (const char c : base::printable(text)) {
    if (c == '&' || c == '<')
      out += c == '&' ? "&amp;" : "&lt;";
    else
      out += (c == '|' || c == '`' || c == '[' ? "\\" : "") + std::string(1, c);
  }
  return out;
}

std::string to_markdown(const Table& table) {
  Table marked = table;
  for (auto& row : marked.rows)
    for (Cell& cell : row)
      cell.text = cell.row ? markdown_code(cell.text) : markdown_text(cell.text);
  TextRows rows = text_rows(marked);
  for (std::string& name : rows[0]) name = markdown_text(name);
  std::string out = markdown_row(rows[0]);
  out += markdown_row(std::vector<std::string>(rows[0].size(), "---"));
  for (size_t r = 1; r < rows.size(); ++r) out += markdown_row(rows[r]);
  return out;
}

nlohmann::ordered_json to_json(const Table& table) {
  nlohmann::ordered_json out = {{"name", table.name}, {"columns", nullptr}, {"rows", nullptr}};
  for (const Column& column : table.columns)
    if (!column.page.empty())
      out["columns"].push_back({{"name", column.page}, {"group", column.group}});
  for (const auto& row : table.rows) {
    auto& cells = out["rows"].emplace_back();
    for (size_t c = 0; c < row.size(); ++c) {
      if (table.columns[c].page.empty()) continue;
      auto& cell = cells.emplace_back();
      cell = {{"text", row[c].text}};
      if (row[c].value) cell["value"] = six_digits(*row[c].value);
      if (!row[c].look.empty()) cell["look"] = row[c].look;
      if (row[c].row) cell["row"] = *row[c].row;
    }
  }
  return out;
}

size_t display_width(const std::string& text) {
  size_t width = 0;
  for (size_t k = 0; k < text.size(); ++k) {
    const auto byte = static_cast<unsigned char>(text[k]);
    if (continues(text[k])) continue;
    // U+0300…U+036F (λ̃) are drawn over the letter before them
    const bool combining =
        byte == 0xCC || (byte == 0xCD && static_cast<unsigned char>(text[k + 1]) < 0xB0);
    width += combining ? 0 : 1;
  }
  return width;
}

std::string format_table(const TextRows& cells) {
  const TextRows rows = printable_cells(cells);
  const std::vector<size_t> widths = column_widths(rows);
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c)
      line += row[c] + std::string(widths[c] - display_width(row[c]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string format_fitted_table(TextRows rows, size_t width,
                                const std::vector<size_t>& may_be_cut) {
  rows = printable_cells(std::move(rows));
  std::vector<size_t> widths = column_widths(rows);
  size_t total = 2 * widths.size();
  for (const size_t w : widths) total += w;
  while (total > width + 2) {
    const size_t widest =
        *std::max_element(may_be_cut.begin(), may_be_cut.end(),
                          [&](size_t a, size_t b) { return widths[a] < widths[b]; });
    if (widths[widest] <= least_cut) break;
    --widths[widest];
    --total;
  }
  for (auto& row : rows)
    for (const size_t c : may_be_cut) row.at(c) = without_middle(row[c], widths[c]);
  std::istringstream lines(format_table(rows));
  std::string out;
  for (std::string line; std::getline(lines, line);) out += first_columns(line, width) + "\n";
  return out;
}

std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::istringstream words(text);
  std::vector<std::string> lines;
  std::string word;
  while (words >> word) {
    if (!lines.empty() && display_width(lines.back()) + 1 + display_width(word) <= width)
      lines.back() += " " + word;
    else
      lines.push_back(word);
  }
  return lines;
}

}  // namespace orthobatch::report
