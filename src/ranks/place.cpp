#include <fmt/core.h>

#include <charconv>

#include "ranks/ranks.h"

namespace orthobatch::ranks {
namespace {

int number_in(const std::string& text, const char* name, int low, int high) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high)
    throw std::invalid_argument(
        fmt::format("{}: expected a whole number, {} to {}, found '{}'; RANK, WORLD_SIZE, "
                    "MASTER_ADDR and MASTER_PORT go together",
                    name, low, high, text));
  return value;
}

}  // namespace

std::optional<Place> place_from(const std::function<const char*(const char*)>& get) {
  const auto text = [&](const char* name) -> std::string { return get(name) ? get(name) : ""; };
  if (text("RANK").empty() && text("WORLD_SIZE").empty()) return std::nullopt;
  Place out;
  out.size = number_in(text("WORLD_SIZE"), "WORLD_SIZE", 1, 1 << 16);
  out.rank = number_in(text("RANK"), "RANK", 0, out.size - 1);
  out.address = text(file_variable);
  out.notice = text(notice_variable);
  out.has_launcher = !out.address.empty() || text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (!out.address.empty()) return out;
  out.address = text("MASTER_ADDR");
  if (out.address.empty())
    throw std::invalid_argument("MASTER_ADDR: expected the host of rank 0, found none");
  out.port = number_in(text("MASTER_PORT"), "MASTER_PORT", 1, 65535);
  if (const std::string attempt = text("TORCHELASTIC_RESTART_COUNT"); !attempt.empty())
    out.prefix = "attempt_" + attempt;
  return out;
}

}  // namespace orthobatch::ranks
