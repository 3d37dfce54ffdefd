#pragma once
// JSON objects read strictly: every member is asked for by name, anything else is an error.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace orthobatch {

/// Reads the members of one JSON object into variables; a member that is not there leaves its
/// variable as it is. Throws std::invalid_argument "WHERE: KEY: expected …, found …".
class JsonFields {
 public:
  /// `object` must outlive it; `where` is what messages call it: "FILE: rows[2]".
  JsonFields(const nlohmann::json& object, std::string where);

  void number(const char* key, double& out);
  void text(const char* key, std::string& out);
  void flag(const char* key, bool& out);
  template <typename Integer>
  void integer(const char* key, Integer& out) {
    constexpr auto most = std::numeric_limits<int64_t>::max();
    constexpr auto own = static_cast<uint64_t>(std::numeric_limits<Integer>::max());
    if (const auto value = find_integer(key, own < most ? static_cast<int64_t>(own) : most))
      out = static_cast<Integer>(*value);
  }
  /// Null where it is not there.
  const nlohmann::json* object(const char* key);
  const nlohmann::json* array(const char* key);
  /// A member that is there for the reader of the file.
  void ignore(const char* key) { known_.emplace_back(key); }

  const std::string& where() const { return where_; }
  std::string path(const std::string& key) const { return where_ + ": " + key; }

  /// After all members have been asked for.
  void refuse_others() const;

  [[noreturn]] void fail(const std::string& what, const nlohmann::json& found) const;

 private:
  using Test = bool (nlohmann::json::*)() const noexcept;
  const nlohmann::json* find(const char* key, Test is, const char* expected);
  /// From 0 to `most`.
  std::optional<int64_t> find_integer(const char* key, int64_t most);

  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

}  // namespace orthobatch
