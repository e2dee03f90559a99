// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>

#include "bucket_timestamps.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "registry.hpp"

namespace lockstep::comm {

/// A reducer with one all-reduce per bucket. It determines when a bucket is started and awaited;
/// each gradient transport derives a class that sums the buckets, so that every reducer works with
/// every transport.
class BucketReducer : public GradientReducer {
 public:
  /// `kind` must communicate.
  BucketReducer(const BucketPartition& buckets, const BucketTimestamps& timestamps,
                ReducerKind kind);

  void begin_step() final;
  void gradients_ready(std::size_t elements) final;
  std::size_t wait_beyond(std::size_t elements) final;
  std::span<const BucketTimes> bucket_times() const override { return timestamps_.read(); }

 protected:
  /// Resets the buckets for the next step; none is in progress.
  virtual void reset() {}
  /// Starts the all-reduce of `bucket` and returns immediately. Its gradients are final, or will be
  /// when the work that was submitted to the device so far has completed. Every step starts the
  /// buckets in order. Collective: all ranks must call this.
  virtual void start(std::size_t bucket) = 0;
  /// Advances the all-reduces that were started, without blocking.
  virtual void progress() {}
  /// Blocks until the first `count` buckets, which were started, are reduced; returns the number of
  /// leading buckets that are reduced. If the stream of the device can wait for the sums, the
  /// stream blocks instead of the host. Collective: all ranks must call this.
  virtual std::size_t wait(std::size_t count) = 0;

  const BucketPartition& buckets() const { return buckets_; }
  BucketTimestamps& timestamps() { return timestamps_; }
  const BucketTimestamps& timestamps() const { return timestamps_; }
  BucketStart start_time() const { return start_time_; }

 private:
  /// Starts the all-reduces of the buckets that are full if the first `elements` gradients are
  /// final.
  void start_up_to(std::size_t elements);

  BucketPartition buckets_;
  BucketTimestamps timestamps_;
  BucketStart start_time_;
  std::size_t started_ = 0;  ///< number of leading buckets that were started
  std::size_t reduced_ = 0;  ///< number of leading buckets that are reduced
};

}  // namespace lockstep::comm
