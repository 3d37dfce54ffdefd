#pragma once
// The members of a struct as JSON, each named once, in a table that every visitor goes through:
//
//     template <typename Config, typename Fields>
//     void members(Config& c, Fields& f) {
//       f.integer("epochs", c.epochs, {1, 100000});
//       f.group("stop", [&](auto& g) { g.integer("patience", c.stop.patience); });
//     }
//
// JsonFields reads and checks them, JsonWriter writes them.

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace orthobatch::io {

/// The numbers a member may have; the ends belong to it or one of them does not.
struct Range {
  enum Ends { closed, above_low, below_high };
  double low = -std::numeric_limits<double>::max(), high = std::numeric_limits<double>::max();
  Ends ends = closed;

  /// False for NaN.
  bool holds(double x) const;
  /// "0 to 14", "above 0", "0 or more, below 1"
  std::string text() const;
};

/// A setting that is one of a few names; every choice once.
template <typename Choice>
using Names = std::vector<std::pair<Choice, std::string>>;

template <typename Choice>
const std::string& name_of(Choice choice, const Names<Choice>& names) {
  return std::find_if(names.begin(), names.end(), [&](auto& n) { return n.first == choice; })
      ->second;
}

/// The index of `text` among the names. Throws std::invalid_argument "WHERE: expected a, b or c,
/// found 'd'".
size_t index_of(const std::string& text, const std::vector<std::string>& names,
                const std::string& where);

template <typename Choice>
Choice choice_of(const std::string& text, const Names<Choice>& names, const std::string& where) {
  std::vector<std::string> known;
  for (const auto& [choice, name] : names) known.push_back(name);
  return names[index_of(text, known, where)].first;
}

/// Reads the members of one JSON object into variables. Throws std::invalid_argument "WHERE: KEY:
/// expected …, found …".
class JsonFields {
 public:
  static constexpr bool reads = true;
  enum class Kind {
    settings,  ///< what is absent or null keeps its value; a member nobody asks for is an error
    record,    ///< the same, but members nobody asks for are passed over
    state,     ///< everything must be there
  };
  /// `object` must outlive it; `where` is what messages call it: "FILE: rows[2]".
  JsonFields(const nlohmann::json& object, std::string where, Kind kind = Kind::settings);

  void number(const char* key, double& out, const Range& range = {});
  /// Printable: of settings what is not is an error, else it is made so.
  void text(const char* key, std::string& out);
  void flag(const char* key, bool& out);
  template <typename Integer>
  void integer(const char* key, Integer& out, const Range& range = {}) {
    if (const nlohmann::json* v = find(key, &nlohmann::json::is_number, "an integer"))
      out = value_of<Integer>(*v, key, range);
  }
  template <typename Choice>
  void choice(const char* key, Choice& out, const Names<Choice>& names) {
    std::string name = name_of(out, names);
    text(key, name);
    out = choice_of(name, names, path(key));
  }
  /// Null: none.
  void nullable(const char* key, std::optional<double>& out, const Range& range = {});
  /// Absent: none.
  template <typename T>
  void optional(const char* key, std::optional<T>& out, const Range& range = {}) {
    T value{};
    if (!present(key)) return ignore(key);
    if constexpr (std::is_same_v<T, std::string>)
      text(key, value);
    else
      number(key, value, range);
    out = value;
  }
  template <typename Number>
  void numbers(const char* key, std::vector<Number>& out, const Range& range = {}) {
    const nlohmann::json* list = array(key);
    if (!list) return;
    out.clear();
    for (const nlohmann::json& item : *list) out.push_back(value_of<Number>(item, key, range));
  }
  template <typename Members>
  void group(const char* key, const Members& members) {
    const nlohmann::json* inner = object(key);
    if (!inner) return;
    JsonFields fields(*inner, path(key), kind_);
    members(fields);
    fields.refuse_others();
  }
  /// Objects; each starts as a copy of `first`.
  template <typename T, typename Members>
  void list(const char* key, std::vector<T>& out, const T& first, const Members& members) {
    const nlohmann::json* items = array(key);
    if (!items) return;
    out.assign(items->size(), first);
    for (size_t i = 0; i < items->size(); ++i) {
      JsonFields fields((*items)[i], path(key) + "[" + std::to_string(i) + "]", kind_);
      members(out[i], fields);
      fields.refuse_others();
    }
  }

  /// Null where it is not there.
  const nlohmann::json* object(const char* key);
  const nlohmann::json* array(const char* key);
  /// A member that is there for the reader of the file.
  void ignore(const char* key) { known_.emplace_back(key); }
  /// Members of a record that no reader can do without.
  void require(std::initializer_list<const char*> keys, const char* expected = "a number") const;

  const std::string& where() const { return where_; }
  std::string path(const std::string& key) const {
    return where_.empty() ? key : where_ + ": " + key;
  }

  /// Of settings, after all members have been asked for.
  void refuse_others() const;

  [[noreturn]] void fail(const std::string& what, const nlohmann::json& found) const;

 private:
  using Test = bool (nlohmann::json::*)() const noexcept;
  bool present(const char* key) const;
  const nlohmann::json* find(const char* key, Test is, const char* expected);
  template <typename Number>
  Number value_of(const nlohmann::json& value, const char* key, const Range& range) const {
    if constexpr (std::is_floating_point_v<Number>) {
      return number_of(value, key, range);
    } else {
      constexpr auto most = std::numeric_limits<int64_t>::max();
      constexpr auto own = static_cast<uint64_t>(std::numeric_limits<Number>::max());
      return static_cast<Number>(
          integer_of(value, key, range, own < most ? static_cast<int64_t>(own) : most));
    }
  }
  double number_of(const nlohmann::json& value, const char* key, const Range& range) const;
  /// From 0 to `most`, and in the range.
  int64_t integer_of(const nlohmann::json& value, const char* key, const Range& range,
                     int64_t most) const;

  const nlohmann::json& object_;
  std::string where_;
  Kind kind_;
  std::vector<std::string> known_;
};

/// Writes what JsonFields reads.
class JsonWriter {
 public:
  static constexpr bool reads = false;
  nlohmann::ordered_json out = nlohmann::ordered_json::object();

  void number(const char* key, double value, const Range& = {}) { out[key] = value; }
  void text(const char* key, const std::string& value) { out[key] = value; }
  void flag(const char* key, bool value) { out[key] = value; }
  template <typename Integer>
  void integer(const char* key, Integer value, const Range& = {}) {
    out[key] = value;
  }
  template <typename Choice>
  void choice(const char* key, Choice value, const Names<Choice>& names) {
    out[key] = name_of(value, names);
  }
  void nullable(const char* key, const std::optional<double>& value, const Range& = {}) {
    out[key] = value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  }
  template <typename T>
  void optional(const char* key, const std::optional<T>& value, const Range& = {}) {
    if (value) out[key] = *value;
  }
  template <typename Number>
  void numbers(const char* key, const std::vector<Number>& values, const Range& = {}) {
    out[key] = values;
  }
  template <typename Members>
  void group(const char* key, const Members& members) {
    JsonWriter inner;
    members(inner);
    out[key] = std::move(inner.out);
  }
  template <typename T, typename Members>
  void list(const char* key, const std::vector<T>& items, const T&, const Members& members) {
    out[key] = nlohmann::ordered_json::array();
    for (const T& item : items) {
      JsonWriter inner;
      members(item, inner);
      out[key].push_back(std::move(inner.out));
    }
  }
};

}  // namespace orthobatch::io
