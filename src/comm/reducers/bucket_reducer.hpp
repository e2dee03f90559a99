// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

class AllReduceResources;

/// Records the start and end of the all-reduce of each bucket on a timeline.
class BucketTimestamps {
 public:
  BucketTimestamps(core::Timeline& timeline, std::size_t buckets);

  /// `stream`: as in `Timeline::record`.
  void start(std::size_t bucket, void* stream = nullptr);
  void end(std::size_t bucket, void* stream = nullptr);

  /// Returns the times of all buckets in the last step. `call_seconds`: the time in calls of each
  /// bucket; empty if the device executes the all-reduces.
  std::span<const BucketTimes> read(std::span<const double> call_seconds = {}) const;

 private:
  core::Timeline* timeline_;
  core::TimestampRange timestamps_;
  mutable std::vector<BucketTimes> times_;  ///< filled by `read`
};

/// Sums the buckets of one gradient buffer over the ranks. Each gradient transport implements it;
/// the reducers determine only when a bucket is started and awaited, so that every reducer works
/// with every transport.
class BucketTransport {
 public:
  BucketTransport(const BucketPartition& buckets, const BucketTimestamps& timestamps)
      : buckets_(buckets), timestamps_(timestamps) {}
  virtual ~BucketTransport() = default;
  BucketTransport(const BucketTransport&) = delete;
  BucketTransport& operator=(const BucketTransport&) = delete;

  /// Resets the transport for the next step; no bucket is in progress.
  virtual void begin_step() {}
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

  virtual bool is_recordable() const = 0;  ///< see `GradientReducer`
  virtual void check() {}                  ///< see `GradientReducer`
  virtual const AllReduceChoice& choice() const = 0;
  /// Returns the bytes that each rank contributes to the sum of each bucket.
  virtual std::vector<std::size_t> bucket_bytes() const = 0;
  virtual std::span<float> state() { return {}; }  ///< see `GradientReducer`
  /// Returns the messages of this rank in the last step. A step that is replayed sends what it sent
  /// when it was captured.
  virtual Traffic traffic() const = 0;

  const BucketPartition& buckets() const { return buckets_; }
  /// Returns the times of the buckets in the last step.
  virtual std::span<const BucketTimes> times() const { return timestamps_.read(); }

 protected:
  BucketTimestamps& timestamps() { return timestamps_; }
  const BucketTimestamps& timestamps() const { return timestamps_; }

 private:
  BucketPartition buckets_;
  BucketTimestamps timestamps_;
};

/// When the all-reduces of the buckets start. `overlapped`: as soon as all gradients of the bucket
/// are final, so that they overlap with the rest of the backward pass. `late`: after the backward
/// pass. `never`: the reducer does not communicate.
enum class BucketStart { overlapped, late, never };

/// A reducer with one all-reduce per bucket.
class BucketReducer final : public GradientReducer {
 public:
  /// `start` must not be `never`.
  BucketReducer(std::unique_ptr<BucketTransport> transport, BucketStart start);

  void begin_step() override;
  void gradients_ready(std::size_t elements) override;
  std::size_t wait_beyond(std::size_t elements) override;
  bool is_recordable() const override { return transport_->is_recordable(); }
  void check() override { transport_->check(); }
  const AllReduceChoice& choice() const override { return transport_->choice(); }
  std::span<const std::size_t> bucket_bytes() const override { return bucket_bytes_; }
  std::span<const BucketTimes> bucket_times() const override { return transport_->times(); }
  Traffic traffic() const override { return transport_->traffic(); }
  std::span<float> state() override { return transport_->state(); }

 private:
  /// Starts the all-reduces of the buckets that are full if the first `elements` gradients are
  /// final.
  void start_up_to(std::size_t elements);

  std::unique_ptr<BucketTransport> transport_;
  bool is_overlapped_;
  std::vector<std::size_t> bucket_bytes_;
  std::size_t started_ = 0;  ///< number of leading buckets that were started
  std::size_t reduced_ = 0;  ///< number of leading buckets that are reduced
};

/// Ranks that receive the sum of a bucket.
enum class SumPlacement { all_ranks, rank_0 };

/// A gradient reducer in the registry.
struct ReducerEntry {
  ReducerKind kind;
  std::string_view help;  ///< meaning, for --help
  BucketStart start = BucketStart::late;
  /// Algorithm that the reducer uses; none if --all-reduce selects it.
  std::optional<AllReduceAlgorithm> algorithm{};
  SumPlacement placement = SumPlacement::all_ranks;
  /// Prepares the sum of the bucket `values` in host memory; null if it is the all-reduce of the
  /// algorithm. The transport nccl does not use it. Otherwise `algorithm` is the name that the run
  /// file records. `state`: the values that the reducer keeps for these gradients. Collective: all
  /// ranks must call this.
  std::unique_ptr<AllReduce> (*make_sum)(AllReduceResources& resources, std::span<float> values,
                                         std::span<float> state,
                                         const ReducerOptions& options) = nullptr;
  /// Returns the bytes that a rank contributes to the sum of a bucket of `elements` gradients; null
  /// if it contributes all gradients in the communication data type. Every rank stores the
  /// contributions of all ranks.
  std::size_t (*bytes_of)(std::size_t elements, const ReducerOptions& options) = nullptr;
  bool has_state = false;  ///< keeps a value per gradient between steps (`GradientReducer::state`)
  /// The sums differ from those of a plain loop over the ranks only by rounding.
  bool is_exact = true;
};

/// Returns the entry of a reducer.
const ReducerEntry& find_reducer(ReducerKind kind);

}  // namespace lockstep::comm
