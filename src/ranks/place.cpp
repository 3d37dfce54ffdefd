#include "ranks/place.h"

#include <fmt/core.h>

#include <charconv>
#include <cstring>

namespace orthobatch::ranks {
namespace {

/// A whole number from `low` to `high`.
int number_in(const Environment& environment, const char* name, int low, int high) {
  const char* text = environment(name);
  if (!text || !*text)
    throw std::invalid_argument(fmt::format(
        "{}: expected a number, found none; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT go "
        "together",
        name));
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < low || value > high)
    throw std::invalid_argument(
        fmt::format("{}: expected a whole number, {} to {}, found '{}'", name, low, high, text));
  return value;
}

bool is_set(const Environment& environment, const char* name) {
  const char* text = environment(name);
  return text && *text;
}

}  // namespace

std::optional<Place> place_from(const Environment& environment) {
  if (!is_set(environment, "RANK") && !is_set(environment, "WORLD_SIZE")) return std::nullopt;
  Place out;
  out.size = number_in(environment, "WORLD_SIZE", 1, 1 << 16);
  out.rank = number_in(environment, "RANK", 0, out.size - 1);
  if (is_set(environment, file_variable)) {
    out.file = environment(file_variable);
    return out;
  }
  if (!is_set(environment, "MASTER_ADDR"))
    throw std::invalid_argument("MASTER_ADDR: expected the host of rank 0, found none");
  out.address = environment("MASTER_ADDR");
  out.port = number_in(environment, "MASTER_PORT", 1, 65535);
  if (const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE"))
    out.has_agent = std::string(agent) == "True";
  if (const char* attempt = environment("TORCHELASTIC_RESTART_COUNT"))
    out.prefix = fmt::format("attempt_{}", attempt);
  return out;
}

}  // namespace orthobatch::ranks
