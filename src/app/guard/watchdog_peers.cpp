// SPDX-License-Identifier: BSD-3-Clause
#include "watchdog_peers.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
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
#include <limits>
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
  RankProgress progress{};
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

using core::Activity;

/// Activities of a step in their order; a rank does not wait for other ranks in the first
/// `local_count`, except with synchronised batch norm, pipelines and parameter servers.
constexpr std::array step_activities{Activity::data_wait,        Activity::upload,
                                     Activity::forward,          Activity::backward,
                                     Activity::update,           Activity::exposed_communication,
                                     Activity::combining_results};
constexpr std::size_t local_count = 5;

std::size_t index_of(const RankStatus& rank) {
  return static_cast<std::size_t>(std::ranges::find(step_activities, rank.progress.activity) -
                                  step_activities.begin());
}

bool computes(const RankStatus& rank) { return index_of(rank) < local_count; }

/// Orders activities by the time at which they begin in a run.
std::int64_t position(const RankStatus& rank) {
  if (rank.progress.activity == Activity::mpi_finalize)
    return std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t activities_of_a_step = 16;
  return rank.progress.step * activities_of_a_step + static_cast<std::int64_t>(index_of(rank));
}

bool same_activity(const RankStatus& a, const RankStatus& b) {
  return a.progress.activity == b.progress.activity && a.progress.step == b.progress.step;
}

std::string describe_silent(std::span<const RankStatus* const> silent) {
  constexpr std::size_t most = 4;
  std::vector<std::string> names;
  for (const RankStatus* rank : silent.first(std::min(most, silent.size())))
    names.push_back(fmt::format("rank {} on {}", rank->rank, rank->host));
  if (silent.size() > most) names.push_back(fmt::format("{} other ranks", silent.size() - most));
  return fmt::format("{} {} not answer (stopped, dead or unreachable)", fmt::join(names, ", "),
                     silent.size() == 1 ? "does" : "do");
}

/// Returns the cause among ranks that answer.
const RankStatus& find_cause(std::span<const RankStatus* const> ranks) {
  const auto idle_seconds = [](const RankStatus* rank) { return rank->progress.idle_seconds; };
  const auto longest = [&](std::span<const RankStatus* const> among) {
    return *std::ranges::max_element(among, {}, idle_seconds);
  };
  const RankStatus& quickest = **std::ranges::min_element(ranks, {}, idle_seconds);
  const RankStatus& slowest = *longest(ranks);
  const auto is_idle = [&](const RankStatus& rank) {
    return rank.progress.idle_seconds >= slowest.progress.idle_seconds / 2;
  };
  std::vector<const RankStatus*> computing;
  std::ranges::copy_if(ranks, std::back_inserter(computing),
                       [&](const RankStatus* rank) { return computes(*rank) && is_idle(*rank); });
  if (!computing.empty()) return *longest(computing);
  if (!is_idle(quickest)) return quickest;
  for (const RankStatus* rank : ranks) {
    const auto equal = std::ranges::count_if(
        ranks, [&](const RankStatus* other) { return same_activity(*rank, *other); });
    if (2 * static_cast<std::size_t>(equal) <= ranks.size()) continue;
    std::vector<const RankStatus*> others;
    std::ranges::copy_if(ranks, std::back_inserter(others),
                         [&](const RankStatus* other) { return !same_activity(*rank, *other); });
    return *longest(others.empty() ? ranks : others);
  }
  return **std::ranges::max_element(ranks, {},
                                    [](const RankStatus* rank) { return position(*rank); });
}

}  // namespace

std::string RankProgress::describe() const {
  const std::string text = core::text_of(activity);
  return step > 0 ? fmt::format("{} of step {}", text, step) : text;
}

std::string describe_cause(std::span<const RankStatus> ranks) {
  std::vector<const RankStatus*> silent, answering;
  for (const RankStatus& rank : ranks) (rank.answers ? answering : silent).push_back(&rank);
  if (!silent.empty()) return describe_silent(silent);
  const RankStatus& cause = find_cause(answering);
  std::string text =
      fmt::format("rank {} on {} has been in {} without progress for {:.1f} s", cause.rank,
                  cause.host, cause.progress.describe(), cause.progress.idle_seconds);
  const auto is_elsewhere = [&](const RankStatus* rank) { return !same_activity(*rank, cause); };
  const auto other = std::ranges::find_if(answering, is_elsewhere);
  if (other == answering.end()) {
    const bool is_shortest = std::ranges::none_of(answering, [&](const RankStatus* rank) {
      return rank->progress.idle_seconds < cause.progress.idle_seconds;
    });
    return text + (is_shortest ? ", and the other ranks wait for it" : ", longer than other ranks");
  }
  const auto count = std::ranges::count_if(
      answering, [&](const RankStatus* rank) { return same_activity(*rank, **other); });
  return text +
         (count == 1
              ? fmt::format(", while rank {} on {} has been in {} for {:.1f} s", (*other)->rank,
                            (*other)->host, (*other)->progress.describe(),
                            (*other)->progress.idle_seconds)
              : fmt::format(", while {} ranks are in {}", count, (*other)->progress.describe()));
}

WatchdogPeers::WatchdogPeers(comm::Communicator& communicator, OwnProgress own_progress)
    : own_progress_(std::move(own_progress)), rank_(communicator.rank()) {
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
    status.progress = datagram.progress;
    return;
  }
  if (datagram.kind == Datagram::Kind::end) _exit(static_cast<int>(core::ExitStatus::internal));
  if (!is_asking_ || datagram.rank < rank_) has_reporter_ = true;
  const Datagram reply{token_, Datagram::Kind::answer, rank_, own_progress_()};
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
      RankStatus& own = peers_[static_cast<std::size_t>(rank_)].status;
      own.answers = true;
      own.progress = own_progress_();
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
