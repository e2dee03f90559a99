// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/clock_offset.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

constexpr int exchanges_per_host = 32;

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
    const auto message = std::as_writable_bytes(std::span(&exchange.remote, 1));
    if (communicator.rank() == 0) {
      exchange.sent = clock();
      communicator.send(message, rank);
      communicator.receive(message, rank);
      exchange.received = clock();
    } else {
      communicator.receive(message, 0);
      exchange.remote = clock();
      communicator.send(message, 0);
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
  std::map<int, ClockOffset> of_hosts{{communicator.host(), {}}};
  std::vector<ClockOffset> offsets;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto [entry, is_first_of_host] = of_hosts.try_emplace(hosts[offsets.size()]);
    if (is_first_of_host) entry->second = measure_clock_offset(communicator, rank, clock);
    offsets.push_back(entry->second);
  }
  return offsets;
}

}  // namespace lockstep::comm
