// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/handle.hpp"
#include "lockstep/core/progress.hpp"

namespace lockstep::app {

/// What a rank is doing.
struct RankProgress {
  core::Activity activity{};
  std::int64_t step = 0;
  double idle_seconds = 0;  ///< time without progress

  /// Returns the activity with the step, if there is one: "backward of step 42".
  std::string describe() const;
};

/// What the watchdog of a rank knows about a rank.
struct RankStatus {
  int rank = 0;
  std::string host;
  bool answers = false;  ///< `progress` is known
  RankProgress progress;
};

/// Returns a phrase that names the rank because of which the others make no progress, and what the
/// others do, for example "rank 2 on node3 does not answer (stopped, dead or unreachable)".
///
/// The cause is a rank that does not answer; otherwise one that is blocked in an activity in which
/// it does not wait for others, or that makes progress while others wait; otherwise, if all ranks
/// wait, the rank that differs from the majority, or, without majority, the one that is ahead of
/// the others, because it did not take part in the operation for which they wait. If all ranks are
/// in the same activity, the one that has made no progress for the longest time is named. `ranks`
/// must not be empty.
std::string describe_cause(std::span<const RankStatus> ranks);

/// Exchanges the activities of the ranks between their watchdogs, over UDP and without MPI, because
/// the main thread of a rank may be blocked. A thread answers the other ranks, and ends the process
/// if one of them says that it has reported a timeout (`end_others`). Datagrams without
/// the random token of this run are ignored.
class WatchdogPeers {
 public:
  using OwnProgress = std::function<RankProgress()>;

  /// Exchanges the addresses of the ranks. Throws `AgreedError` (internal) if a rank cannot open a
  /// socket. Collective: all ranks must call this.
  WatchdogPeers(comm::Communicator& communicator, OwnProgress own_progress);
  ~WatchdogPeers();

  /// Asks all ranks for their status, except ranks of other hosts without an IPv4 address. Returns
  /// the answers that arrive within `limit`, sooner if all ranks have answered; nothing if another
  /// rank has asked before, or has asked at the same time and is lower: that rank reports the
  /// timeout.
  std::optional<std::vector<RankStatus>> ask(std::chrono::milliseconds limit);

  /// Ends the other ranks that can be reached, with status 70, and waits for 0.1 s. If this rank
  /// ended before them, MPI would abort them with another status when it lost the connection.
  void end_others();

 private:
  struct Datagram;
  struct Peer {
    RankStatus status;
    std::vector<std::uint32_t> addresses;  ///< IPv4, in network byte order
    std::uint16_t port = 0;                ///< in network byte order
  };

  void send(const Datagram& datagram, const Peer& peer) const;
  void answer(const std::stop_token& stop);
  void handle(const Datagram& datagram, std::uint32_t address, std::uint16_t port);

  OwnProgress own_progress_;
  int rank_;
  core::Descriptor socket_;
  core::Descriptor stop_event_;
  std::array<std::uint64_t, 2> token_{};
  mutable std::mutex mutex_;  ///< protects the members below
  std::vector<Peer> peers_;   ///< of all ranks
  bool is_asking_ = false;
  bool has_reporter_ = false;  ///< another rank reports the timeout
  std::jthread thread_;
};

}  // namespace lockstep::app
