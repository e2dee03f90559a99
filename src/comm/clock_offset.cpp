// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/clock_offset.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

constexpr int exchanges_per_host = 32;

std::span<std::byte> bytes_of(double& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

ClockExchange exchange_with(Communicator& communicator, int rank, const ReadClock& clock) {
  ClockExchange exchange;
  double request = 0;
  exchange.sent = clock();
  communicator.send(bytes_of(request), rank);
  communicator.receive(bytes_of(exchange.remote), rank);
  exchange.received = clock();
  return exchange;
}

void reply(Communicator& communicator, const ReadClock& clock) {
  double message = 0;
  communicator.receive(bytes_of(message), 0);
  message = clock();
  communicator.send(bytes_of(message), 0);
}

/// Returns the rank of each host that exchanges messages with rank 0. `hosts`: (rank), index of its
/// host.
std::vector<int> first_ranks(std::span<const int> hosts) {
  std::vector<int> first(static_cast<std::size_t>(*std::ranges::max_element(hosts)) + 1, -1);
  for (std::size_t rank = hosts.size(); rank-- > 0;)
    first[static_cast<std::size_t>(hosts[rank])] = static_cast<int>(rank);
  return first;
}

}  // namespace

ClockOffset estimate_clock_offset(std::span<const ClockExchange> exchanges) {
  core::check(!exchanges.empty(), "a clock offset needs an exchange");
  const auto round_trip = [](const ClockExchange& e) { return e.received - e.sent; };
  const ClockExchange& best = *std::ranges::min_element(exchanges, {}, round_trip);
  const double half = round_trip(best) / 2;
  return {.seconds = best.remote - (best.sent + half), .error = half};
}

ClockOffset measure_clock_offset(Communicator& communicator, int rank, const ReadClock& clock) {
  std::array<ClockExchange, exchanges_per_host> exchanges;
  for (ClockExchange& exchange : exchanges) {
    if (communicator.rank() == 0) {
      exchange = exchange_with(communicator, rank, clock);
    } else {
      reply(communicator, clock);
    }
  }
  return communicator.rank() == 0 ? estimate_clock_offset(exchanges) : ClockOffset{};
}

std::vector<ClockOffset> measure_clock_offsets(Communicator& communicator, const ReadClock& clock) {
  const std::vector<int> hosts = gather(communicator, communicator.host());
  if (communicator.rank() != 0) {
    const bool is_first_of_host = communicator.local_rank() == 0 && communicator.host() != 0;
    if (is_first_of_host) measure_clock_offset(communicator, communicator.rank(), clock);
    return {};
  }
  std::vector<ClockOffset> of_hosts;
  for (const int rank : first_ranks(hosts))
    of_hosts.push_back(rank == 0 ? ClockOffset{} : measure_clock_offset(communicator, rank, clock));
  std::vector<ClockOffset> offsets;
  for (const int host : hosts) offsets.push_back(of_hosts[static_cast<std::size_t>(host)]);
  return offsets;
}

}  // namespace lockstep::comm
