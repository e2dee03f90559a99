// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_timestamps.hpp"

namespace lockstep::comm {

BucketTimestamps::BucketTimestamps(core::Timeline& timeline, std::size_t buckets)
    : timeline_(&timeline), timestamps_(timeline.reserve(2 * buckets)), times_(buckets) {}

void BucketTimestamps::start(std::size_t bucket, void* stream) {
  if (timeline_ != nullptr) timeline_->record(timestamps_[2 * bucket], stream);
}

void BucketTimestamps::end(std::size_t bucket, void* stream) {
  if (timeline_ != nullptr) timeline_->record(timestamps_[2 * bucket + 1], stream);
}

std::span<const BucketTimes> BucketTimestamps::read(std::span<const double> call_seconds) const {
  for (std::size_t b = 0; b < times_.size(); ++b) {
    const double start = timeline_->seconds(timestamps_[2 * b]);
    const double end = timeline_->seconds(timestamps_[2 * b + 1]);
    times_[b] = {start, end, call_seconds.empty() ? end - start : call_seconds[b]};
  }
  return times_;
}

}  // namespace lockstep::comm
