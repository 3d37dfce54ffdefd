#include "base/table.h"

#include <algorithm>
#include <sstream>

namespace orthobatch::cli {

size_t display_width(const std::string& text) {
  size_t width = 0;
  for (size_t k = 0; k < text.size(); ++k) {
    const auto byte = static_cast<unsigned char>(text[k]);
    if ((byte & 0xC0) == 0x80) continue;  // continuation
    // U+0300…U+036F (λ̃) are drawn over the letter before them
    const bool combining =
        byte == 0xCC || (byte == 0xCD && static_cast<unsigned char>(text[k + 1]) < 0xB0);
    width += combining ? 0 : 1;
  }
  return width;
}

namespace {

std::vector<size_t> column_widths(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  return widths;
}

/// The first or the last so many columns of a text.
std::string first_columns(const std::string& text, size_t columns) {
  size_t end = 0;
  for (size_t next = 0; next <= text.size(); ++next) {
    const bool whole =
        next == text.size() || (static_cast<unsigned char>(text[next]) & 0xC0) != 0x80;
    if (whole && display_width(text.substr(0, next)) <= columns) end = next;
  }
  return text.substr(0, end);
}
std::string last_columns(const std::string& text, size_t columns) {
  const size_t width = display_width(text);
  return text.substr(first_columns(text, width - std::min(width, columns)).size());
}

}  // namespace

std::string shortened(const std::string& text, size_t width, const std::string& gap) {
  if (display_width(text) <= width) return text;
  const size_t kept = width - std::min(width, display_width(gap));
  return first_columns(text, kept - kept / 2) + gap + last_columns(text, kept / 2);
}

std::string format_fitted_table(std::vector<std::vector<std::string>> rows, size_t width,
                                const std::vector<size_t>& may_be_cut, size_t least,
                                const std::string& gap) {
  std::vector<size_t> widths = column_widths(rows);
  size_t total = 2 * (widths.size() - std::min<size_t>(widths.size(), 1));
  for (const size_t w : widths) total += w;
  while (total > width && !may_be_cut.empty()) {
    const size_t widest =
        *std::max_element(may_be_cut.begin(), may_be_cut.end(),
                          [&](size_t a, size_t b) { return widths[a] < widths[b]; });
    if (widths[widest] <= least) break;
    --widths[widest];
    --total;
  }
  for (auto& row : rows)
    for (const size_t c : may_be_cut)
      if (c < row.size()) row[c] = shortened(row[c], widths[c], gap);
  return format_table(rows);
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
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

std::string format_wrapped_table(const std::vector<std::vector<std::string>>& rows,
                                 const std::vector<size_t>& widths) {
  std::string out;
  size_t total = 0;
  for (size_t w : widths) total += w + 2;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::vector<std::string>> cells;
    size_t height = 0;
    for (size_t c = 0; c < widths.size(); ++c) {
      cells.push_back(wrap(rows[r][c], widths[c]));
      height = std::max(height, cells.back().size());
    }
    for (size_t line = 0; line < height; ++line) {
      std::string text;
      for (size_t c = 0; c < widths.size(); ++c) {
        const std::string cell = line < cells[c].size() ? cells[c][line] : "";
        const size_t width = display_width(cell);
        text += cell + std::string(width < widths[c] ? widths[c] - width + 2 : 2, ' ');
      }
      text.erase(text.find_last_not_of(' ') + 1);
      out += text + "\n";
    }
    if (r == 0)
      out += std::string(total - 2, '-') + "\n";
    else if (r + 1 < rows.size())
      out += "\n";
  }
  return out;
}

}  // namespace orthobatch::cli
