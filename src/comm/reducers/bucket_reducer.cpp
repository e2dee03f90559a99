// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_reducer.hpp"

#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

BucketReducer::BucketReducer(std::unique_ptr<BucketTransport> transport, BucketStart start)
    : transport_(std::move(transport)),
      is_overlapped_(start == BucketStart::overlapped),
      bucket_bytes_(transport_->bucket_bytes()) {}

void BucketReducer::begin_step() {
  core::check(started_ == reduced_, "a step begins while gradients of the last are in progress");
  started_ = 0;
  reduced_ = 0;
  transport_->begin_step();
}

void BucketReducer::gradients_ready(std::size_t elements) {
  if (!is_overlapped_) return;
  start_up_to(elements);
  transport_->progress();
}

void BucketReducer::start_up_to(std::size_t elements) {
  const std::size_t full = transport_->buckets().full(elements);
  for (; started_ < full; ++started_) transport_->start(started_);
}

std::size_t BucketReducer::wait_beyond(std::size_t elements) {
  const BucketPartition& buckets = transport_->buckets();
  start_up_to(buckets.elements());
  const std::size_t needed = buckets.needed_beyond(elements);
  if (needed > reduced_) reduced_ = transport_->wait(needed);
  return buckets.prefix(reduced_);
}

BucketTimestamps::BucketTimestamps(core::Timeline& timeline, std::size_t buckets)
    : timeline_(&timeline), timestamps_(timeline.reserve(2 * buckets)), times_(buckets) {}

void BucketTimestamps::start(std::size_t bucket, void* stream) {
  timeline_->record(timestamps_[2 * bucket], stream);
}

void BucketTimestamps::end(std::size_t bucket, void* stream) {
  timeline_->record(timestamps_[2 * bucket + 1], stream);
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
