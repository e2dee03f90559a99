// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_reducer.hpp"

#include "lockstep/core/error.hpp"
#include "registry.hpp"

namespace lockstep::comm {

BucketPartition BucketPartition::without_buckets(std::size_t elements) {
  BucketPartition partition;
  partition.elements_ = elements;
  return partition;
}

std::size_t BucketPartition::bucket_length(std::size_t bucket_bytes) {
  const std::size_t length = bucket_bytes / sizeof(float);
  if (length == 0) {
    core::fail(core::ExitStatus::usage,
               "a gradient bucket holds less than one value; choose a larger bucket size");
  }
  return length;
}

BucketPartition::BucketPartition(std::size_t elements, std::size_t bucket_bytes)
    : elements_(elements), length_(bucket_length(bucket_bytes)) {
  count_ = elements_ / length_ + (elements_ % length_ == 0 ? 0 : 1);
}

std::size_t BucketPartition::full(std::size_t filled) const {
  if (count_ == 0 || filled >= elements_) return count_;
  return filled / length_;
}

std::vector<std::size_t> BucketPartition::bucket_sizes(std::size_t element_bytes) const {
  std::vector<std::size_t> bytes(count_);
  for (std::size_t b = 0; b < count_; ++b) bytes[b] = length(b) * element_bytes;
  return bytes;
}

BucketReducer::BucketReducer(const BucketPartition& buckets, const BucketTimestamps& timestamps,
                             ReducerKind kind)
    : buckets_(buckets), timestamps_(timestamps), start_time_(find_reducer(kind).start) {}

void BucketReducer::begin_step() {
  core::check(started_ == reduced_, "a step begins while gradients of the last are in progress");
  started_ = 0;
  reduced_ = 0;
  reset();
}

void BucketReducer::gradients_ready(std::size_t elements) {
  if (start_time_ != BucketStart::overlapped) return;
  start_up_to(elements);
  progress();
}

void BucketReducer::start_up_to(std::size_t elements) {
  const std::size_t full = buckets_.full(elements);
  for (; started_ < full; ++started_) start(started_);
}

std::size_t BucketReducer::wait_beyond(std::size_t elements) {
  start_up_to(buckets_.elements());
  const std::size_t needed = buckets_.needed_beyond(elements);
  if (needed > reduced_) reduced_ = wait(needed);
  return buckets_.prefix(reduced_);
}

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
