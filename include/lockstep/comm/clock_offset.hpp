// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/timeline.hpp"

// Differences between the clocks of hosts, so that times of different ranks can be compared.
namespace lockstep::comm {

/// Difference between two clocks, in seconds.
struct ClockOffset {
  double seconds = 0;  ///< other clock minus own clock
  double error = 0;    ///< bound on the absolute error of `seconds`
};

/// An exchange of two messages with a rank, in seconds.
struct ClockExchange {
  double sent = 0;      ///< time of the request, on the own clock
  double remote = 0;    ///< time of the reply, on the clock of the other rank
  double received = 0;  ///< time at which the reply was received, on the own clock
};

/// Reads a clock, in seconds.
using ReadClock = std::function<double()>;

/// Returns the offset that follows from the exchange with the shortest round trip: the reply was
/// sent between `sent` and `received`, so the middle is wrong by at most half of the round trip
/// (F. Cristian, "Probabilistic clock synchronization", 1989). `exchanges` must not be empty.
ClockOffset estimate_clock_offset(std::span<const ClockExchange> exchanges);

/// Measures the offset of the clock of rank `rank`, which is not 0, to the clock of rank 0 by
/// repeated exchanges. Returns it on rank 0; the other rank gets 0. Both ranks must call this.
ClockOffset measure_clock_offset(Communicator& communicator, int rank, const ReadClock& clock);

/// Measures the offset of the clock of every rank to the clock of rank 0. The ranks of a host share
/// the monotonic clock of the kernel, so one rank of each host other than that of rank 0 exchanges
/// messages; the offset of ranks on the host of rank 0 is 0 without an error. Returns (rank) on
/// rank 0, and an empty vector on the other ranks. Collective: all ranks must call this.
std::vector<ClockOffset> measure_clock_offsets(Communicator& communicator,
                                               const ReadClock& clock = core::host_seconds);

}  // namespace lockstep::comm
