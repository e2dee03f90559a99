// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_reducer.hpp"

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

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

}  // namespace lockstep::comm
