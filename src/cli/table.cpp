#include "cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace orthobatch::cli {

size_t display_width(const std::string& text) {
  size_t width = 0;
  for (size_t k = 0; k < text.size(); ++k) {
    const auto byte = static_cast<unsigned char>(text[k]);
    if ((byte & 0xC0) == 0x80) continue;  // continuation
    // U+0300…U+036F (λ̃) are drawn over the letter before them
    const bool combining = byte == 0xCC || (byte == 0xCD && static_cast<unsigned char>(text[k + 1]) < 0xB0);
    width += combining ? 0 : 1;
  }
  return width;
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
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

size_t terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

std::string wrap(const std::string& text, size_t width, size_t indent) {
  std::istringstream words(text);
  std::string word, out;
  size_t column = 0;
  while (words >> word) {
    const size_t length = display_width(word);
    if (column > 0 && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      out += " ";
      ++column;
    } else {
      column = indent;
    }
    out += word;
    column += length;
  }
  return out;
}

}  // namespace orthobatch::cli
