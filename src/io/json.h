#pragma once
// JSON text from files that anyone may have written.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace orthobatch::io {

/// No file of ours nests deeper. What is done with a JSON value calls itself once a level, and a
/// million levels would end the program.
constexpr int largest_json_depth = 64;

/// Parses JSON text; throws std::invalid_argument that names `name`, and line and column where it
/// is not JSON.
nlohmann::json parse_json(const std::string& text, const std::string& name);

/// The same where a damaged text counts as none: null then.
nlohmann::json parse_json_or_null(const std::string& text);

/// A line of text for another program to read, whatever bytes are in a path or a message; a number
/// that is not finite is null.
std::string json_text(const nlohmann::ordered_json& value);

/// A member that two objects have otherwise; those of objects inside with a dot:
/// "schedule.learning_rate".
struct Difference {
  std::string key;
  nlohmann::json expected, found;  ///< null: it is not there
};
std::vector<Difference> differences(const nlohmann::json& expected, const nlohmann::json& found);

}  // namespace orthobatch::io
