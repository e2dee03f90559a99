// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/comm/all_reduce.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/replica.hpp"

namespace lockstep::comm {

/// A gradient reducer, identified by its name on the command line: it determines when and whether
/// the gradients are summed over the ranks. `named_values` also has the reducers
/// without a constant.
class ReducerKind {
 public:
  static const ReducerKind overlap;    ///< during the backward pass: as soon as all gradients of a
                                       ///< bucket are final
  static const ReducerKind allreduce;  ///< after the backward pass
  static const ReducerKind gather_scatter;    ///< after the backward pass, on rank 0, which sends
                                              ///< the sums back
  static const ReducerKind parameter_server;  ///< after the backward pass, on rank 0 only, which
                                              ///< updates the parameters and sends them
  static const ReducerKind
      none;  ///< never: independent replicas, the baseline without communication

  constexpr ReducerKind() = default;  ///< `overlap`
  /// `name` must be a string literal.
  constexpr explicit ReducerKind(std::string_view name) : name_(name) {}

  constexpr std::string_view name() const { return name_; }
  constexpr bool operator==(const ReducerKind&) const = default;

 private:
  std::string_view name_ = "overlap";
};

inline constexpr ReducerKind ReducerKind::overlap{};
inline constexpr ReducerKind ReducerKind::allreduce{"allreduce"};
inline constexpr ReducerKind ReducerKind::gather_scatter{"gather-scatter"};
inline constexpr ReducerKind ReducerKind::parameter_server{"parameter-server"};
inline constexpr ReducerKind ReducerKind::none{"none"};

/// Returns the reducers of the registry (src/comm/reducers/registry.cpp), with their names and
/// meanings.
std::span<const core::NamedValue<ReducerKind>> named_values(ReducerKind);

/// Options of a gradient reducer.
struct ReducerOptions {
  ReducerKind kind = ReducerKind::overlap;
  std::size_t bucket_bytes = std::size_t{6} << 20;  ///< bytes of float32 gradients per bucket
  core::DataType gradient_type = core::DataType::float32;  ///< communication data type
  AllReduceAlgorithm algorithm = {};
  double density = 0.01;  ///< fraction of the gradients that a sparse reducer sends
};

/// Returns the all-reduce algorithm of a reducer with these options: that of the reducer if it has
/// one, otherwise `options.algorithm`. Throws `Error` (usage) if the options contain another one
/// than the reducer has.
AllReduceAlgorithm algorithm_of(const ReducerOptions& options);

/// Partition of the flat gradient buffer into buckets, from the front; all but the last have the
/// same length. The class only computes positions; the reducers count the buckets that are started
/// and reduced. Positions and lengths are in elements.
class BucketPartition {
 public:
  /// Returns a partition without buckets: nothing is reduced.
  static BucketPartition without_buckets(std::size_t elements);

  /// Returns the length of a bucket of `bucket_bytes` bytes of float32 values. Throws `Error`
  /// (usage) if that is less than one value.
  static std::size_t bucket_length(std::size_t bucket_bytes);

  /// `bucket_bytes`: bytes of float32 values per bucket. Throws `Error` (usage) if that is less
  /// than one value.
  BucketPartition(std::size_t elements, std::size_t bucket_bytes);

  std::size_t count() const { return count_; }        ///< number of buckets
  std::size_t elements() const { return elements_; }  ///< length of the buffer

  std::size_t begin(std::size_t bucket) const { return bucket * length_; }
  std::size_t end(std::size_t bucket) const { return prefix(bucket + 1); }
  std::size_t length(std::size_t bucket) const { return end(bucket) - begin(bucket); }

  /// Returns the number of leading buckets that are full if the first `filled` elements are final.
  std::size_t full(std::size_t filled) const;

  /// Returns the number of leading buckets that must be reduced so that the reduced prefix exceeds
  /// `elements` elements or is the whole buffer.
  std::size_t needed_beyond(std::size_t elements) const {
    return std::min(full(elements) + 1, count_);
  }

  /// Returns the length of the reduced prefix if the first `buckets` buckets are reduced.
  std::size_t prefix(std::size_t buckets) const {
    return buckets >= count_ ? elements_ : buckets * length_;
  }

  /// Returns the bytes of each bucket if an element has `element_bytes` bytes in communication.
  std::vector<std::size_t> bucket_sizes(std::size_t element_bytes) const;

 private:
  BucketPartition() = default;

  std::size_t elements_ = 0;
  std::size_t length_ = 0;  ///< elements per bucket
  std::size_t count_ = 0;
};

/// Returns the buckets in which `elements` gradients are reduced over `ranks` ranks; there are none
/// if there is only one rank or `options.kind` does not communicate. Throws `Error` (usage) if the
/// buckets are too small.
BucketPartition partition_gradients(std::size_t elements, int ranks, const ReducerOptions& options);

/// Returns the bytes that each rank contributes to the sum of each bucket. `options`: the reducer,
/// and the data type in which it communicates.
std::vector<std::size_t> contributed_bytes(const BucketPartition& buckets,
                                           const ReducerOptions& options);

/// Returns an upper bound of the host memory, in bytes on each of `ranks` ranks, of which
/// `local_ranks` are on its host, with which gradients in host memory are summed: the memory of the
/// buckets (`all_reduce_memory_bytes`), and what the reducer keeps between steps.
std::size_t reducer_memory_bytes(const BucketPartition& buckets, int ranks, int local_ranks,
                                 const ReducerOptions& options);

/// Returns whether a reducer keeps a value per gradient between steps (`GradientReducer::state`).
bool keeps_state(ReducerKind kind);

/// Times of the all-reduce of a bucket in seconds; NaN if they were not recorded.
struct BucketTimes {
  double start_seconds = 0;  ///< start, since the start of the step
  double end_seconds = 0;    ///< completion, since the start of the step
  /// Part of the time from start to end that the all-reduce occupied: the time that the host spent
  /// in calls that start, advance or await it. The rest is computation of the host between these
  /// calls. If the device executes the all-reduce, the whole time.
  double call_seconds = 0;
};

/// Sums the flat gradient buffer over the ranks, with one all-reduce per bucket (Li et al.,
/// "PyTorch Distributed", VLDB 2020). Buckets are views of the buffer; gradients are not copied
/// into them. With `parameter_server` only rank 0 receives the sums; the gradients of the other
/// ranks are undefined after the reduction. A reducer does not depend on the model. As a
/// `GradientListener` it is notified during the backward pass (`gradients_ready`) of the gradients
/// that are final.
class GradientReducer : public core::GradientListener {
 public:
  /// Resets the reducer for the next step. Throws `Error` (internal) if buckets of the last step
  /// are still in progress.
  virtual void begin_step() = 0;

  /// Blocks until the reduced prefix of the buffer exceeds `elements` elements or is the whole
  /// buffer; returns its length in elements. Starts the all-reduces that have not been started, so
  /// all gradients must be final. If the stream of the device can wait for the sums, the stream
  /// blocks instead of the host: work that is enqueued after this call reads the sums. Collective:
  /// all ranks must call this.
  virtual std::size_t wait_beyond(std::size_t elements) = 0;

  /// Blocks until the whole buffer is reduced. Collective: all ranks must call this.
  void finish() { wait_beyond(std::numeric_limits<std::size_t>::max()); }

  /// Returns whether the reducer enqueues the same work on the device in every step, so that the
  /// device can capture a step once (CUDA graph) and replay it.
  virtual bool is_recordable() const { return true; }

  /// Must be called repeatedly while the host waits for the device. Throws `Error` (internal) if
  /// communication has failed; the communication for which the device was waiting is aborted first.
  virtual void throw_if_failed() {}

  /// Returns the all-reduce algorithm in use.
  virtual const AllReduceChoice& choice() const = 0;
  /// Returns the bytes that each rank contributes to the sum of each bucket, as communicated; empty
  /// if nothing is reduced (also with one rank).
  virtual std::span<const std::size_t> bucket_sizes() const = 0;
  /// Returns the times of the buckets in the step that was collected last.
  virtual std::span<const BucketTimes> bucket_times() const = 0;
  virtual Traffic traffic() const = 0;  ///< messages of this rank in a step
  /// Returns values in host memory that the reducer keeps between steps and that differ between
  /// ranks; a checkpoint must contain them. Empty if there are none.
  virtual std::span<float> state() { return {}; }
};

/// Creates a reducer that sums nothing over `elements` gradients: for one rank, and for steps
/// without communication.
std::unique_ptr<GradientReducer> make_empty_reducer(std::size_t elements);

}  // namespace lockstep::comm
