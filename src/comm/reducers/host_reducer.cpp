// SPDX-License-Identifier: BSD-3-Clause
#include "host_reducer.hpp"

#include <sched.h>

#include "../all_reduce/registry.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

HostReducer::HostReducer(AllReduceResources& resources, std::span<float> values,
                         const ReducerOptions& options, const BucketPartition& partition,
                         const BucketTimestamps& timestamps)
    : BucketReducer(partition, timestamps, options.kind), call_seconds_(partition.count()) {
  const ReducerEntry& reducer = find_reducer(options.kind);
  choice_ = reducer.make_sum != nullptr
                ? AllReduceChoice{.algorithm = options.algorithm}
                : choose_algorithm(resources, values, options.gradient_type, options.algorithm);
  if (reducer.has_state) {
    together(resources.ranks(), [&] { state_ = core::Buffer(values.size_bytes()); });
  }
  for (std::size_t b = 0; b < partition.count(); ++b) {
    const auto part = [&](std::span<float> all) {
      return all.empty() ? all : all.subspan(partition.begin(b), partition.length(b));
    };
    all_reduces_.push_back(
        {reducer.make_sum != nullptr
             ? reducer.make_sum(resources, part(values), part(state()), options)
             : make_all_reduce(resources, part(values), options.gradient_type, choice_.algorithm),
         false});
  }
  ReducerOptions communicated = options;
  communicated.gradient_type = supported_type(choice_.algorithm, options.gradient_type);
  bucket_sizes_ = contributed_bytes(partition, communicated);
}

void HostReducer::reset() {
  started_ = 0;
  reduced_ = 0;
}

// The clock is read within the start and the end of a bucket, so that its time in calls is never
// longer than the time between them.

void HostReducer::start(std::size_t bucket) {
  timestamps().start(bucket);
  const double since = core::host_seconds();
  all_reduces_[bucket].is_reduced = false;
  all_reduces_[bucket].all_reduce->start();
  call_seconds_[bucket] = core::host_seconds() - since;
  started_ = bucket + 1;
}

std::size_t HostReducer::advance(double& since) {
  for (std::size_t b = reduced_; b < started_; ++b) {
    Bucket& bucket = all_reduces_[b];
    if (bucket.is_reduced) continue;
    bucket.is_reduced = bucket.all_reduce->progress();
    const double now = core::host_seconds();
    call_seconds_[b] += now - since;
    since = now;
    if (bucket.is_reduced) timestamps().end(b);
  }
  while (reduced_ < started_ && all_reduces_[reduced_].is_reduced) ++reduced_;
  return reduced_;
}

std::size_t HostReducer::advance() {
  double since = core::host_seconds();
  return advance(since);
}

/// If all buckets start after the backward pass, waits for all of them: an update of a bucket would
/// delay the others, which progress only in calls, and would be part of their times.
std::size_t HostReducer::wait(std::size_t count) {
  const std::size_t needed = start_time() == BucketStart::late ? buckets().count() : count;
  double since = core::host_seconds();
  while (true) {
    const std::size_t reduced = advance(since);
    if (reduced >= needed) return reduced;
    sched_yield();  // if ranks share a core, the rank that this one waits for must be able to run
  }
}

Traffic HostReducer::traffic() const {
  Traffic sum;
  for (const Bucket& bucket : all_reduces_) sum += bucket.all_reduce->traffic();
  return sum;
}

}  // namespace lockstep::comm
