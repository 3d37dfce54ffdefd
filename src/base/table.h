#pragma once

#include <string>
#include <vector>

namespace orthobatch::cli {

/// Columns a terminal shows for UTF-8 text (one per code point).
size_t display_width(const std::string& text);

/// A table in plain text: first row is the header, columns padded, two spaces between.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

/// A text of at most so many columns: what is too much in the middle gives way to `gap`.
std::string shortened(const std::string& text, size_t width, const std::string& gap);

/// format_table() in at most `width` columns, as far as cutting the cells of some columns down to
/// `least` goes, the widest first.
std::string format_fitted_table(std::vector<std::vector<std::string>> rows, size_t width,
                                const std::vector<size_t>& may_be_cut, size_t least,
                                const std::string& gap);

/// Text broken at spaces into lines of at most `width` columns; a longer word has its own line.
std::vector<std::string> wrap(const std::string& text, size_t width);

/// A table whose cells are wrapped to the given column widths, a rule under the header and a blank
/// line between rows.
std::string format_wrapped_table(const std::vector<std::vector<std::string>>& rows,
                                 const std::vector<size_t>& widths);

}  // namespace orthobatch::cli
