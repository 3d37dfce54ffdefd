#pragma once
// Numbers of a JSON that anyone may have written: in their range, or named.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace orthobatch {

/// What stands in place of a number, no more of it than fits a line.
std::string brief(const nlohmann::json& value);

/// A member of an object; throws std::invalid_argument "KEY: expected LOW to HIGH, found …".
double number_of(const nlohmann::json& object, const char* key, double low, double high);
int64_t integer_of(const nlohmann::json& object, const char* key, int64_t low, int64_t high);

}  // namespace orthobatch
