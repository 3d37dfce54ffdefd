#include "run/json_number.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace orthobatch {

using nlohmann::json;

std::string brief(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  if (value.is_string() && value.get_ref<const std::string&>().size() > 40) return "a long text";
  return value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

double number_of(const json& object, const char* key, double low, double high) {
  const json found = object.contains(key) ? object.at(key) : json();
  if (!found.is_number())
    throw std::invalid_argument(fmt::format("{}: expected a number, found {}", key,
                                            object.contains(key) ? brief(found) : "nothing"));
  const double x = found.get<double>();
  if (!(x >= low && x <= high))
    throw std::invalid_argument(
        fmt::format("{}: expected {} to {}, found {}", key, low, high, found.dump()));
  return x;
}

int64_t integer_of(const json& object, const char* key, int64_t low, int64_t high) {
  constexpr double most = std::numeric_limits<double>::max();
  const double x = number_of(object, key, -most, most);
  if (x != std::floor(x) || x < static_cast<double>(low) || x > static_cast<double>(high))
    throw std::invalid_argument(fmt::format("{}: expected an integer, {} to {}, found {}", key, low,
                                            high, object.at(key).dump()));
  return static_cast<int64_t>(x);
}

}  // namespace orthobatch
