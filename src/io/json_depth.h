#pragma once

#include <algorithm>
#include <string>

namespace orthobatch {

/// No file of ours nests deeper. Reading a JSON text that does is safe; what is done with it
/// afterwards calls itself once a level, and a million levels end the program.
constexpr int largest_json_depth = 64;

/// How deep the lists and objects of a JSON text nest.
inline int json_depth(const std::string& text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace orthobatch
