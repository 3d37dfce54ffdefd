#include "io/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "base/text.h"

namespace orthobatch::io {
namespace {

using nlohmann::json;

struct TooDeep : std::exception {};

json parse_bounded(const std::string& text) {
  return json::parse(text, [](int depth, json::parse_event_t event, const json&) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth >= largest_json_depth) throw TooDeep();
    return true;
  });
}

void collect(const json& expected, const json& found, const std::string& prefix,
             std::vector<Difference>& out) {
  std::set<std::string> keys;
  for (const json* side : {&expected, &found})
    for (const auto& [key, value] : side->items()) keys.insert(key);
  for (const std::string& key : keys) {
    const json left = expected.value(key, json()), right = found.value(key, json());
    if (left.is_object() && right.is_object())
      collect(left, right, prefix + key + ".", out);
    else if (left != right)
      out.push_back({prefix + key, left, right});
  }
}

}  // namespace

json parse_json(const std::string& text, const std::string& name) {
  try {
    return parse_bounded(text);
  } catch (const TooDeep&) {
    throw std::invalid_argument(fmt::format(
        "{}: expected lists and objects nested up to {}, found more", name, largest_json_depth));
  } catch (const json::out_of_range&) {
    throw std::invalid_argument(fmt::format("{}: expected numbers up to {:.2g}, found a larger one",
                                            name, std::numeric_limits<double>::max()));
  } catch (const json::parse_error& error) {
    const size_t end = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + end, '\n');
    const size_t start = text.rfind('\n', end > 0 ? end - 1 : 0);
    const size_t column = start == std::string::npos || start >= end ? end + 1 : end - start;
    throw std::invalid_argument(
        fmt::format("{}: line {}, column {}: not JSON", name, line, column));
  }
}

json parse_json_or_null(const std::string& text) {
  try {
    return parse_bounded(text);
  } catch (const TooDeep&) {
    return nullptr;
  } catch (const json::exception&) {
    return nullptr;
  }
}

std::string json_text(const nlohmann::ordered_json& value) {
  const auto text = [&](bool ascii) {
    return value.dump(-1, ' ', ascii, nlohmann::ordered_json::error_handler_t::replace);
  };
  const std::string out = text(false);
  return base::printable(out) == out ? out : text(true);  // a terminal may obey what is not ASCII
}

std::vector<Difference> differences(const json& expected, const json& found) {
  std::vector<Difference> out;
  collect(expected.is_object() ? expected : json::object(),
          found.is_object() ? found : json::object(), "", out);
  return out;
}

}  // namespace orthobatch::io
