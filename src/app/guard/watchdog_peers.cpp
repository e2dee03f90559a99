// SPDX-License-Identifier: BSD-3-Clause
#include "watchdog_peers.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/core/process/thread.hpp"

namespace lockstep::app {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// All datagrams have the same format and size; only an answer has more than the first three
/// members.
struct WatchdogPeers::Datagram {
  enum class Kind : std::int32_t { query = 1, answer = 2, end = 3 };

  std::array<std::uint64_t, 2> token{};
  Kind kind{};
  std::int32_t rank = 0;
  std::int64_t step = 0;
  double idle_seconds = 0;
  core::Activity activity{};
};

namespace {

/// The socket of a rank. Port and addresses are in network byte order.
struct Endpoint {
  std::string host_name;
  int host = 0;  ///< `Communicator::host`
  std::uint16_t port = 0;
  std::vector<std::uint32_t> addresses;

  static auto fields(auto& self) {
    return std::tie(self.host_name, self.host, self.port, self.addresses);
  }
};

sockaddr_in socket_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = address;
  result.sin_port = port;
  return result;
}

/// Returns the IPv4 addresses of this host, without loopback.
std::vector<std::uint32_t> own_addresses() {
  std::vector<std::uint32_t> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET || is_loopback)
      continue;
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    found.push_back(address.sin_addr.s_addr);
  }
  ::freeifaddrs(first);
  return found;
}

/// Opens a socket with a free port of all addresses of this host.
core::Descriptor open_socket() {
  core::Descriptor opened(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in any = socket_address(htonl(INADDR_ANY), 0);
  if (opened && ::bind(opened.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0)
    return opened;
  core::fail(core::ExitStatus::internal,
             fmt::format("the watchdog cannot open a UDP socket ({})", std::strerror(errno)));
}

std::uint16_t port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address.sin_port;
}

}  // namespace

WatchdogPeers::WatchdogPeers(comm::Communicator& communicator, OwnStatus own_status)
    : own_status_(std::move(own_status)), rank_(communicator.rank()) {
  comm::together(communicator, [&] {
    stop_event_.reset(::eventfd(0, EFD_CLOEXEC));
    core::check(bool{stop_event_}, "the watchdog has an event");
    socket_ = open_socket();
    core::check(::getrandom(token_.data(), sizeof token_, 0) == sizeof token_,
                "the kernel has random numbers for the watchdog");
  });
  comm::broadcast(communicator, token_);
  const Endpoint own{core::host_name(), communicator.host(), port_of(socket_.get()),
                     own_addresses()};
  for (Endpoint& endpoint : comm::all_gather(communicator, own)) {
    Peer& peer = peers_.emplace_back();
    peer.status.rank = static_cast<int>(peers_.size()) - 1;
    peer.status.host = endpoint.host_name;
    peer.port = endpoint.port;
    if (endpoint.host == communicator.host()) peer.addresses.push_back(htonl(INADDR_LOOPBACK));
    std::ranges::copy(endpoint.addresses, std::back_inserter(peer.addresses));
  }
  thread_ = core::start_helper([this](const std::stop_token& stop) { answer(stop); });
}

WatchdogPeers::~WatchdogPeers() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_event_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

void WatchdogPeers::send(const Datagram& datagram, const Peer& peer) const {
  for (const std::uint32_t host : peer.addresses) {
    const sockaddr_in address = socket_address(host, peer.port);
    // A peer that cannot be reached does not answer.
    ::sendto(socket_.get(), &datagram, sizeof datagram, 0,
             reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
}

void WatchdogPeers::answer(const std::stop_token& stop) {
  std::array<pollfd, 2> events{{{socket_.get(), POLLIN, 0}, {stop_event_.get(), POLLIN, 0}}};
  while (!stop.stop_requested()) {
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    Datagram datagram;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const auto received = ::recvfrom(socket_.get(), &datagram, sizeof datagram, 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
    if (received == sizeof datagram && datagram.token == token_)
      handle(datagram, from.sin_addr.s_addr, from.sin_port);
  }
}

void WatchdogPeers::handle(const Datagram& datagram, std::uint32_t address, std::uint16_t port) {
  const std::lock_guard lock(mutex_);
  if (datagram.rank < 0 || static_cast<std::size_t>(datagram.rank) >= peers_.size()) return;
  if (datagram.kind == Datagram::Kind::answer) {
    RankStatus& status = peers_[static_cast<std::size_t>(datagram.rank)].status;
    status.answers = true;
    status.activity = datagram.activity;
    status.step = datagram.step;
    status.idle_seconds = datagram.idle_seconds;
    return;
  }
  if (datagram.kind == Datagram::Kind::end) _exit(static_cast<int>(core::ExitStatus::internal));
  if (!is_asking_ || datagram.rank < rank_) has_reporter_ = true;
  const RankStatus own = own_status_();
  Datagram reply{.token = token_,
                 .kind = Datagram::Kind::answer,
                 .rank = rank_,
                 .step = own.step,
                 .idle_seconds = own.idle_seconds,
                 .activity = own.activity};
  const sockaddr_in to = socket_address(address, port);
  ::sendto(socket_.get(), &reply, sizeof reply, 0, reinterpret_cast<const sockaddr*>(&to),
           sizeof to);
}

std::optional<std::vector<RankStatus>> WatchdogPeers::ask(std::chrono::milliseconds limit) {
  constexpr auto interval = 50ms;
  const auto end = Clock::now() + limit;
  const Datagram query{.token = token_, .kind = Datagram::Kind::query, .rank = rank_};
  while (true) {
    std::vector<RankStatus> statuses;
    {
      const std::lock_guard lock(mutex_);
      if (has_reporter_) return std::nullopt;
      is_asking_ = true;
      Peer& own = peers_[static_cast<std::size_t>(rank_)];
      const RankStatus status = own_status_();
      own.status = {rank_,           own.status.host, true,
                    status.activity, status.step,     status.idle_seconds};
      for (const Peer& peer : peers_) {
        if (!peer.status.answers && peer.addresses.empty()) continue;
        statuses.push_back(peer.status);
        if (!peer.status.answers) send(query, peer);
      }
    }
    const bool is_complete = std::ranges::all_of(statuses, &RankStatus::answers);
    if (is_complete || Clock::now() >= end) return statuses;
    std::this_thread::sleep_for(interval);
  }
}

void WatchdogPeers::end_others() {
  constexpr int repeats = 3;  // a datagram can be lost
  const Datagram end{.token = token_, .kind = Datagram::Kind::end, .rank = rank_};
  for (int i = 0; i < repeats; ++i) {
    {
      const std::lock_guard lock(mutex_);
      for (const Peer& peer : peers_)
        if (peer.status.rank != rank_) send(end, peer);
    }
    std::this_thread::sleep_for(100ms / repeats);
  }
}

}  // namespace lockstep::app
