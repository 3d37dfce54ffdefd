#include "ranks/address.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "ranks/place.h"

namespace orthobatch {

Addresses resolve(const std::string& name, int port, int type) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = type;
  const int status = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0)
    throw RankError(
        fmt::format("MASTER_ADDR: no address of '{}': {}", name, ::gai_strerror(status)));
  return {list, &::freeaddrinfo};
}

namespace {

/// A socket that is connected, or was tried to be within a second.
struct Connected {
  explicit Connected(const addrinfo& to)
      : socket(::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK, 0)) {
    if (socket < 0) return;
    done = ::connect(socket, to.ai_addr, to.ai_addrlen) == 0;
    if (done || errno != EINPROGRESS) return;
    pollfd wait{socket, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    done = ::poll(&wait, 1, 1000) == 1 &&
           ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  ~Connected() {
    if (socket >= 0) ::close(socket);
  }
  int socket;
  bool done = false;
};

}  // namespace

std::string own_address(const std::string& towards, int port) {
  const Addresses list = resolve(towards, port, SOCK_DGRAM);
  for (const addrinfo* at = list.get(); at; at = at->ai_next) {
    // Connecting a datagram socket sends nothing: it only asks for the way.
    const Connected connected(*at);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST];
    if (connected.done &&
        ::getsockname(connected.socket, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) == 0)
      return text;
  }
  throw RankError(fmt::format("no way from this host to {}", towards));
}

void wait_for_listener(const std::string& address, int port, std::chrono::milliseconds timeout) {
  const Addresses list = resolve(address, port, SOCK_STREAM);
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (true) {
    for (const addrinfo* at = list.get(); at; at = at->ai_next)
      if (Connected(*at).done) return;
    if (std::chrono::steady_clock::now() > until)
      throw RankError(fmt::format(
          "no store at {}:{} within {} s: was rank 0 started, and are MASTER_ADDR and MASTER_PORT "
          "what it has?",
          address, port, std::chrono::duration<double>(timeout).count()));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace orthobatch
