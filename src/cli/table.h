#pragma once

#include <string>
#include <vector>

namespace orthobatch::cli {

/// Columns a terminal shows for UTF-8 text (one per code point).
size_t display_width(const std::string& text);

/// A table in plain text: first row is the header, columns padded, two spaces between.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

/// Columns of the terminal on standard output; 100 when it is not one.
size_t terminal_width();

/// Text broken at spaces to lines of at most `width`, all after the first behind `indent` spaces.
std::string wrap(const std::string& text, size_t width, size_t indent);

}  // namespace orthobatch::cli
