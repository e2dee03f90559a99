// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/core/activity.hpp"

namespace lockstep::app {

/// What the watchdog of a rank knows about a rank.
struct RankStatus {
  int rank = 0;
  std::string host;
  bool answers = false;  ///< the other members are known
  core::Activity activity{};
  std::int64_t step = 0;
  double idle_seconds = 0;  ///< time without progress
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

}  // namespace lockstep::app
