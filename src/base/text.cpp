#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace orthobatch {
namespace {

int lower(char c) { return std::tolower(static_cast<unsigned char>(c)); }

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string number_text(double x) {
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  if (x == 0) return "0";
  // Scientific from 1e-4 down and from 1e6 up; to_chars writes e-05 and e+12.
  char buffer[64];
  const double magnitude = std::abs(x);
  const auto format = magnitude < 1e-3 || magnitude >= 1e6 ? std::chars_format::scientific
                                                           : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x, format).ptr;
  std::string text(buffer, end);
  const size_t e = text.find('e');
  if (e == std::string::npos) return text;
  std::string exponent = text.substr(e + 2);
  exponent.erase(0, std::min(exponent.find_first_not_of('0'), exponent.size() - 1));
  return text.substr(0, e) + (text[e + 1] == '-' ? "e-" : "e") + exponent;
}

std::string fraction_text(double x) {
  const double n = std::round(1.0 / x);
  const bool exact = x > 0 && x < 1 && n <= 1e6 && 1.0 / n == x;
  return exact ? "1/" + number_text(n) : number_text(x);
}

std::string bytes_text(uint64_t n) { return std::to_string(n) + " bytes"; }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string join_choices(const std::vector<std::string>& choices) {
  std::string out;
  for (size_t k = 0; k < choices.size(); ++k)
    out += (k == 0 ? "" : k + 1 == choices.size() ? " or " : ", ") + choices[k];
  return out;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& choices) {
  const auto best = std::min_element(choices.begin(), choices.end(),
                                     [&](const std::string& a, const std::string& b) {
                                       return edit_distance(word, a) < edit_distance(word, b);
                                     });
  if (best == choices.end()) return "";
  const size_t distance = edit_distance(word, *best);
  if (distance > 1 + best->size() / 4 || distance >= best->size()) return "";
  return "; did you mean '" + *best + "'?";
}

}  // namespace orthobatch
