#pragma once
// Settings that are one of a few names.

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace orthobatch {

/// Every choice once.
template <typename Choice>
using Names = std::vector<std::pair<Choice, std::string>>;

template <typename Choice>
std::string name_of(Choice choice, const Names<Choice>& names) {
  return std::find_if(names.begin(), names.end(), [&](auto& n) { return n.first == choice; })
      ->second;
}

/// Throws std::invalid_argument "WHERE: expected a, b or c, found 'd'".
template <typename Choice>
Choice choice_of(const std::string& text, const Names<Choice>& names, const std::string& where) {
  std::vector<std::string> known;
  for (const auto& [choice, name] : names) {
    if (name == text) return choice;
    known.push_back(name);
  }
  throw std::invalid_argument(fmt::format("{}: expected {}, found '{}'{}", where,
                                          join_choices(known), text, suggestion(text, known)));
}

}  // namespace orthobatch
