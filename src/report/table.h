#pragma once
// Tables, and how they are written: plain text, Markdown, JSON for the page.

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace orthobatch::report {

using TextRows = std::vector<std::vector<std::string>>;

struct Cell {
  std::string text = "-";
  std::optional<double> value = std::nullopt;  ///< what the page sorts by, and draws bars of
  std::string look = "";                       ///< class in the page: "main", "bar", "badge sure"
  std::optional<size_t> row = std::nullopt;    ///< the row of the experiment that it names
};

struct Column {
  std::string text;        ///< its name in text and Markdown; empty: it is not there
  std::string page;        ///< in the page; empty: it is not there
  std::string group = "";  ///< over several columns of the page
};

struct Table {
  std::string name;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

/// The columns for texts, a header first.
TextRows text_rows(const Table& table);
/// Text from outside as Markdown shows it: no markup, no end of a cell or line.
std::string markdown_text(const std::string& text);
std::string to_markdown(const Table& table);
nlohmann::ordered_json to_json(const Table& table);

/// A number of the page: six digits are more than any is known to, and a third of the bytes of all.
/// Null where it is not finite.
nlohmann::ordered_json six_digits(double x);

/// Columns a terminal shows for UTF-8 text (one per code point).
size_t display_width(const std::string& text);

/// In plain text: columns padded, two spaces between, cells made printable.
std::string format_table(const TextRows& cells);

/// The same in at most `width` columns: the widest of those that `may_be_cut` lose the middle of
/// their cells, down to a few characters; then lines are cut.
std::string format_fitted_table(TextRows rows, size_t width, const std::vector<size_t>& may_be_cut);

/// Text broken at spaces into lines of at most `width` columns; a longer word has its own line.
std::vector<std::string> wrap(const std::string& text, size_t width);

}  // namespace orthobatch::report
