// Gloo: collectives of CPU tensors over TCP.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "core/error.h"
#include "core/process.h"
#include "dist/internal.h"
#include "dist/process_group.h"

namespace sgtrain::dist {
namespace {

std::string numeric(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = {};
  const int error = getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? host : "";
}

// Our address on the way to a host (no packet is sent); empty when there is none.
std::string address_towards(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  std::string out;
  for (const addrinfo* a = found; a != nullptr && out.empty(); a = a->ai_next) {
    const int fd = ::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage mine{};
    socklen_t size = sizeof mine;
    auto* address = reinterpret_cast<sockaddr*>(&mine);
    if (::connect(fd, a->ai_addr, a->ai_addrlen) == 0 && ::getsockname(fd, address, &size) == 0) {
      out = numeric(address, size);
    }
    ::close(fd);
  }
  freeaddrinfo(found);
  return out;
}

std::string first_outer_address() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string out;
  for (const ifaddrs* i = list; i != nullptr && out.empty(); i = i->ifa_next) {
    const bool usable = i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET &&
                        (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable) out = numeric(i->ifa_addr, sizeof(sockaddr_in));
  }
  freeifaddrs(list);
  return out;
}

// The address other ranks reach us at. The machine's own name is no help: Debian gives it
// 127.0.1.1.
std::string own_address(const World& world) {
  if (is_loopback(world.master_addr)) return "127.0.0.1";
  std::string address = address_towards(world.master_addr, world.master_port);
  if (address.empty() || (is_loopback(address) && world.local_world_size < world.world_size)) {
    address = first_outer_address();
  }
  return address.empty() ? "127.0.0.1" : address;
}

std::shared_ptr<gloo::transport::Device> make_device(const World& world,
                                                     const CommunicatorOptions& options) {
  std::string interface = options.interface;
  if (interface.empty()) interface = core::environment("GLOO_SOCKET_IFNAME");
  try {
    if (!interface.empty()) return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
    return c10d::ProcessGroupGloo::createDeviceForHostname(own_address(world));
  } catch (const std::exception& error) {
    throw core::Error(std::string("cannot use the network for Gloo: ") + error.what(), interface,
                      "name an interface of `ip addr` (dist.interface, GLOO_SOCKET_IFNAME)");
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const World& world,
                                            const CommunicatorOptions& options) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo->devices.push_back(make_device(world, options));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, world.rank, world.world_size, gloo);
}

}  // namespace sgtrain::dist
