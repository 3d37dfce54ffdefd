#include "ranks/place.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace orthobatch {
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
  if (!is_set(environment, "MASTER_ADDR"))
    throw std::invalid_argument("MASTER_ADDR: expected the host of rank 0, found none");
  out.address = environment("MASTER_ADDR");
  out.port = number_in(environment, "MASTER_PORT", 1, 65535);
  // torchrun's words for it, which our own launcher uses too.
  if (const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE"))
    out.keeps_store = std::string(agent) != "True";
  if (const char* attempt = environment("TORCHELASTIC_RESTART_COUNT"))
    out.prefix = fmt::format("attempt_{}", attempt);
  return out;
}

std::string own_address(const std::string& towards, int port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  const int status = ::getaddrinfo(towards.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0)
    throw RankError(
        fmt::format("MASTER_ADDR: no address of '{}': {}", towards, ::gai_strerror(status)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = list; at; at = at->ai_next) {
    // Connecting a datagram socket sends nothing: it only asks for the way.
    const int socket = ::socket(at->ai_family, SOCK_DGRAM, 0);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    const bool found = socket >= 0 && ::connect(socket, at->ai_addr, at->ai_addrlen) == 0 &&
                       ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0;
    error = errno;
    if (socket >= 0) ::close(socket);
    char text[NI_MAXHOST];
    if (found && ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr,
                               0, NI_NUMERICHOST) == 0)
      return text;
  }
  throw RankError(fmt::format("no way from this host to {}: {}", towards, std::strerror(error)));
}

}  // namespace orthobatch
