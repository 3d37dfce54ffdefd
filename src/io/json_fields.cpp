#include "io/json_fields.h"

#include <fmt/core.h>

#include <cmath>
#include <stdexcept>

#include "base/text.h"

namespace orthobatch::io {

using nlohmann::json;

namespace {

/// As JSON, whatever bytes are in its texts, and no more of it than a message can hold.
std::string brief(const json& value) {
  constexpr size_t longest = 200;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  if (text.size() <= longest) return base::printable(text);
  size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return base::printable(text.substr(0, end)) + " …";
}

}  // namespace

bool Range::holds(double x) const {
  return x >= low && x <= high && (ends != above_low || x != low) &&
         (ends != below_high || x != high);
}

std::string Range::text() const {
  const bool bounded = high < std::numeric_limits<double>::max();
  const std::string least = base::number_text(low), most = base::number_text(high);
  if (low == Range{}.low) return "a finite number";
  if (ends == above_low) return "above " + least + (bounded ? ", at most " + most : "");
  if (ends == below_high) return least + " or more, below " + most;
  return least + (bounded ? " to " + most : " or more");
}

size_t index_of(const std::string& text, const std::vector<std::string>& names,
                const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    throw std::invalid_argument(fmt::format("{}: expected {}, found '{}'{}", where,
                                            base::join_choices(names), base::printable(text),
                                            base::suggestion(text, names)));
  return static_cast<size_t>(found - names.begin());
}

JsonFields::JsonFields(const json& object, std::string where, Kind kind)
    : object_(object), where_(std::move(where)), kind_(kind) {
  if (!object.is_object()) fail("expected an object", object);
}

void JsonFields::number(const char* key, double& out, const Range& range) {
  if (const json* v = find(key, &json::is_number, "a number")) out = number_of(*v, key, range);
}

void JsonFields::text(const char* key, std::string& out) {
  const json* v = find(key, &json::is_string, "a text");
  if (!v) return;
  out = base::printable(v->get_ref<const std::string&>());
  if (kind_ == Kind::settings && out != v->get_ref<const std::string&>())
    fail(fmt::format("{}: expected a line of text without control characters", key), *v);
}

void JsonFields::flag(const char* key, bool& out) {
  if (const json* v = find(key, &json::is_boolean, "true or false")) out = v->get<bool>();
}

void JsonFields::nullable(const char* key, std::optional<double>& out, const Range& range) {
  if (const auto it = object_.find(key); it != object_.end() && it->is_null()) {
    ignore(key);
    out.reset();
    return;
  }
  double value = out.value_or(0);
  number(key, value, range);
  if (present(key)) out = value;
}

const json* JsonFields::object(const char* key) { return find(key, &json::is_object, "an object"); }

const json* JsonFields::array(const char* key) { return find(key, &json::is_array, "a list"); }

void JsonFields::require(std::initializer_list<const char*> keys, const char* expected) const {
  for (const char* key : keys) {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null())
      throw std::invalid_argument(fmt::format("{}: expected {}, found {}", path(key), expected,
                                              it == object_.end() ? "nothing" : "null"));
  }
}

void JsonFields::refuse_others() const {
  if (kind_ != Kind::settings) return;
  for (const auto& [key, value] : object_.items())
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      throw std::invalid_argument(fmt::format("{}: no setting '{}', expected {}{}", where_,
                                              base::printable(key), base::join_choices(known_),
                                              base::suggestion(key, known_)));
}

void JsonFields::fail(const std::string& what, const json& found) const {
  throw std::invalid_argument(fmt::format("{}, found {}", path(what), brief(found)));
}

bool JsonFields::present(const char* key) const {
  const auto it = object_.find(key);
  return it != object_.end() && !it->is_null();
}

const json* JsonFields::find(const char* key, Test is, const char* expected) {
  known_.emplace_back(key);
  if (kind_ == Kind::state && !object_.contains(key))
    throw std::invalid_argument(fmt::format("{}: expected {}, found nothing", path(key), expected));
  if (kind_ != Kind::state && !present(key)) return nullptr;
  const json& value = object_.at(key);
  if (!(value.*is)()) fail(fmt::format("{}: expected {}", key, expected), value);
  return &value;
}

double JsonFields::number_of(const json& value, const char* key, const Range& range) const {
  if (!value.is_number() || !range.holds(value.get<double>()))
    fail(fmt::format("{}: expected {}", key, range.text()), value);
  return value.get<double>();
}

int64_t JsonFields::integer_of(const json& value, const char* key, const Range& range,
                               int64_t most) const {
  constexpr double exact = 9007199254740992.0;  // beyond it 1e16 may stand for a neighbour
  const auto low = static_cast<int64_t>(std::max(range.low, 0.0));
  const int64_t high =
      range.high < static_cast<double>(most) ? static_cast<int64_t>(range.high) : most;
  int64_t found = -1;
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() <= static_cast<uint64_t>(high)) found = value.get<int64_t>();
  } else if (value.is_number()) {
    const auto x = value.get<double>();
    if (x >= 0 && x <= exact && x == std::floor(x)) found = static_cast<int64_t>(x);
  }
  if (found < low || found > high)
    fail(fmt::format("{}: expected an integer, {} to {}", key, low, high), value);
  return found;
}

}  // namespace orthobatch::io
