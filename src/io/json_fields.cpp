#include "io/json_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/text.h"

namespace orthobatch {

using nlohmann::json;

namespace {

/// As JSON, whatever bytes are in its texts, and no more of it than a message can hold.
std::string brief(const json& value) {
  constexpr size_t longest = 200;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  if (text.size() <= longest) return text;
  size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + " …";
}

}  // namespace

JsonFields::JsonFields(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) fail("expected an object", object);
}

void JsonFields::number(const char* key, double& out) {
  if (const json* v = find(key, &json::is_number, "a number")) out = v->get<double>();
}

void JsonFields::text(const char* key, std::string& out) {
  const json* v = find(key, &json::is_string, "a text");
  if (!v) return;
  const std::string& text = v->get_ref<const std::string&>();
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(text.begin(), text.end(), control))
    fail(fmt::format("{}: expected a line of text without control characters", key), *v);
  out = text;
}

void JsonFields::flag(const char* key, bool& out) {
  if (const json* v = find(key, &json::is_boolean, "true or false")) out = v->get<bool>();
}

const json* JsonFields::object(const char* key) { return find(key, &json::is_object, "an object"); }

const json* JsonFields::array(const char* key) { return find(key, &json::is_array, "a list"); }

void JsonFields::refuse_others() const {
  for (const auto& [key, value] : object_.items())
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      throw std::invalid_argument(fmt::format("{}: no setting '{}', expected {}{}", where_, key,
                                              join_choices(known_), suggestion(key, known_)));
}

void JsonFields::fail(const std::string& what, const json& found) const {
  throw std::invalid_argument(fmt::format("{}: {}, found {}", where_, what, brief(found)));
}

const json* JsonFields::find(const char* key, Test is, const char* expected) {
  known_.emplace_back(key);
  const auto it = object_.find(key);
  if (it == object_.end()) return nullptr;
  if (!((*it).*is)()) fail(fmt::format("{}: expected {}", key, expected), *it);
  return &*it;
}

std::optional<int64_t> JsonFields::find_integer(const char* key, int64_t most) {
  const json* v = find(key, &json::is_number, "an integer");
  if (!v) return std::nullopt;
  constexpr double exact = 9007199254740992.0;  // beyond it 1e16 may stand for a neighbour
  std::optional<int64_t> value;
  if (v->is_number_unsigned()) {
    if (v->get<uint64_t>() <= static_cast<uint64_t>(most)) value = v->get<int64_t>();
  } else if (const double x = v->get<double>(); x >= 0 && x <= exact && x == std::floor(x)) {
    if (static_cast<int64_t>(x) <= most) value = static_cast<int64_t>(x);
  }
  if (!value) fail(fmt::format("{}: expected an integer, 0 to {}", key, most), *v);
  return value;
}

}  // namespace orthobatch
