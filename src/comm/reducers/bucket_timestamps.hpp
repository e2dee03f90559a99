// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

/// Records the start and end of the all-reduce of each bucket on a timeline.
class BucketTimestamps {
 public:
  BucketTimestamps() = default;  ///< records nothing
  BucketTimestamps(core::Timeline& timeline, std::size_t buckets);

  /// `stream`: as in `Timeline::record`.
  void start(std::size_t bucket, void* stream = nullptr);
  void end(std::size_t bucket, void* stream = nullptr);

  /// Returns the times of all buckets in the last step. `call_seconds`: the time in calls of each
  /// bucket; empty if the device executes the all-reduces.
  std::span<const BucketTimes> read(std::span<const double> call_seconds = {}) const;

 private:
  core::Timeline* timeline_ = nullptr;
  core::TimestampRange timestamps_;
  mutable std::vector<BucketTimes> times_;  ///< filled by `read`
};

}  // namespace lockstep::comm
