#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orthobatch::base {

/// Shortest decimal text that reads back as the same double: 1e-5, 0.25, 100, 1e12, inf.
std::string number_text(double x);

/// The same, as 1/n where that is exact and shorter to grasp: 1/100.
std::string fraction_text(double x);

/// "1:05", "2:03:10"
std::string duration_text(double seconds);

/// "8 bytes"
std::string bytes_text(uint64_t n);

/// Whether it ends so.
bool ends_with(const std::string& text, const std::string& end);

/// Up to the first end of a line.
std::string first_line(const std::string& text);

/// Text from outside as a terminal or a page may show it: control characters, those that turn the
/// direction of writing or break a line, and bytes that are no UTF-8 become \x0a and the like. Those
/// in `kept` stay.
std::string printable(const std::string& text, const std::string& kept = "");

/// Whether a name comes before another where numbers count as such: a2 before a10.
bool comes_before(const std::string& a, const std::string& b);

/// "a, b or c"
std::string join_choices(const std::vector<std::string>& choices);

/// "; did you mean 'ZCA'?" where a choice is close to the word, else empty.
std::string suggestion(const std::string& word, const std::vector<std::string>& choices);

}  // namespace orthobatch::base
