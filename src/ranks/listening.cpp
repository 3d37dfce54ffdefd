#include "ranks/listening.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "ranks/address.h"
#include "ranks/place.h"

namespace orthobatch {
namespace {

struct Address {
  sockaddr_storage value{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

// Of this thread, while a ListenOnlyAt lives; the second as a socket of IPv6 takes it.
thread_local const Address* only = nullptr;
thread_local const Address* only_mapped = nullptr;

int really_bind(int socket, const sockaddr* address, socklen_t size) {
  return static_cast<int>(::syscall(SYS_bind, socket, address, size));
}

bool is_every_address(const sockaddr* a, socklen_t size) {
  if (a->sa_family == AF_INET && size >= sizeof(sockaddr_in))
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr == htonl(INADDR_ANY);
  if (a->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6))
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr);
  return false;
}

in_port_t& port_of(sockaddr_storage& a) {
  return a.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(a).sin_port
                                : reinterpret_cast<sockaddr_in6&>(a).sin6_port;
}

/// ::ffff:a.b.c.d
Address mapped(const Address& v4) {
  Address out;
  auto& to = reinterpret_cast<sockaddr_in6&>(out.value);
  to.sin6_family = AF_INET6;
  to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(&to.sin6_addr.s6_addr[12], &reinterpret_cast<const sockaddr_in&>(v4.value).sin_addr,
              4);
  out.size = sizeof(sockaddr_in6);
  return out;
}

Address first_of(const std::string& name, int port) {
  const Addresses list = resolve(name, port, SOCK_STREAM);
  Address out;
  std::memcpy(&out.value, list->ai_addr, list->ai_addrlen);
  out.size = list->ai_addrlen;
  return out;
}

/// Throws where a store could not be there.
void try_to_listen(const std::string& name, const Address& at, int port) {
  const int socket = ::socket(at.value.ss_family, SOCK_STREAM, 0);
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool bound = really_bind(socket, at.get(), at.size) == 0 && ::listen(socket, 1) == 0;
  const int error = errno;
  ::close(socket);
  if (bound) return;
  if (error == EADDRINUSE)
    throw RankError(
        fmt::format("MASTER_PORT: port {} of {} is in use: end what listens there, or set another "
                    "on every rank",
                    port, name));
  if (error == EADDRNOTAVAIL)
    throw RankError(fmt::format(
        "MASTER_ADDR: expected an address of this host, where rank 0 runs, found {}", name));
  throw RankError(fmt::format("cannot listen on {}:{}: {}", name, port, std::strerror(error)));
}

}  // namespace

ListenOnlyAt::ListenOnlyAt(const std::string& address, int port) {
  auto at = std::make_unique<Address>(first_of(address, port));
  if (port != 0) try_to_listen(address, *at, port);
  if (at->value.ss_family == AF_INET) only_mapped = new Address(mapped(*at));
  only = at.release();
}

ListenOnlyAt::~ListenOnlyAt() {
  delete only;
  delete only_mapped;
  only = only_mapped = nullptr;
}

}  // namespace orthobatch

/// In the program this stands before libc's, for all libraries it loads.
extern "C" int bind(int socket, const sockaddr* address, socklen_t size) noexcept {
  using namespace orthobatch;
  if (!only || !address || !is_every_address(address, size))
    return really_bind(socket, address, size);
  const Address* to = address->sa_family == only->value.ss_family ? only : only_mapped;
  if (!to || to->value.ss_family != address->sa_family) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  Address at = *to;
  sockaddr_storage asked{};
  std::memcpy(&asked, address, size);
  port_of(at.value) = port_of(asked);
  return really_bind(socket, at.get(), at.size);
}
