#pragma once
// Hosts by name or number; what fails throws RankError.

#include <netdb.h>

#include <chrono>
#include <memory>
#include <string>

namespace orthobatch {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// One at least. `type` is SOCK_STREAM or SOCK_DGRAM.
Addresses resolve(const std::string& name, int port, int type);

/// The address, as numbers, under which this host is seen from there.
std::string own_address(const std::string& towards, int port);

/// Returns when something listens there, within the timeout.
void wait_for_listener(const std::string& address, int port, std::chrono::milliseconds timeout);

}  // namespace orthobatch
