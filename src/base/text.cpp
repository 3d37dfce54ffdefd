#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace orthobatch::base {
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

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The digits from `at` on, which moves behind them, without zeros in front.
std::string number_at(const std::string& text, size_t& at) {
  const size_t start = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  const size_t first = std::min(text.find_first_not_of('0', start), at);
  return text.substr(first, at - first);
}

/// Bytes of the UTF-8 character at `at`; 0 where there is none: a stray byte, one cut short, one
/// written longer than need be, a surrogate.
size_t character_length(const std::string& text, size_t at) {
  const auto byte = [&](size_t k) {
    return at + k < text.size() ? static_cast<unsigned char>(text[at + k]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xc2 && first < 0xe0   ? 2
                        : (first & 0xf0) == 0xe0        ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  for (size_t k = 1; k < length; ++k)
    if ((byte(k) & 0xc0) != 0x80) return 0;
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90))
    return 0;
  return length;
}

/// The number of the character of so many bytes at `at`.
uint32_t character_at(const std::string& text, size_t at, size_t length) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[at + k]); };
  if (length == 1) return byte(0);
  uint32_t number = byte(0) & (0xffu >> (length + 1));
  for (size_t k = 1; k < length; ++k) number = number << 6 | (byte(k) & 0x3f);
  return number;
}

/// Whether a terminal obeys it, or it shows other text than there is.
bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) ||          // C0, DEL and C1
         c == 0x61c || c == 0x200e || c == 0x200f ||     // marks of direction
         (c >= 0x2028 && c <= 0x202e) ||                 // ends of lines, overrides of direction
         (c >= 0x2066 && c <= 0x2069) || c == 0xfeff ||  // isolates, byte order
         (c >= 0xe0000 && c <= 0xe007f);                 // tags
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

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const long s = std::lround(seconds);
  char text[32];
  if (s < 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  return text;
}

std::string bytes_text(uint64_t n) { return std::to_string(n) + " bytes"; }

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string printable(const std::string& text, const std::string& kept) {
  std::string out;
  for (size_t k = 0; k < text.size();) {
    const size_t length = character_length(text, k), end = k + std::max<size_t>(length, 1);
    const bool shown = length > 0 && (!is_control(character_at(text, k, length)) ||
                                      kept.find(text[k]) != std::string::npos);
    if (shown) out.append(text, k, length);
    for (; k < end; ++k) {
      if (shown) continue;
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(text[k]));
      out += escape;
    }
  }
  return out;
}

bool comes_before(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i, ++j;
      continue;
    }
    const std::string left = number_at(a, i), right = number_at(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // 7 and 07
}

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

}  // namespace orthobatch::base
