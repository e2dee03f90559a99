#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

/// When the all-reduces of the gradient buckets start.
enum class ReducerKind {
  overlap,    ///< during the backward pass: as soon as all gradients of a bucket are final
  allreduce,  ///< after the backward pass
  none,       ///< never: independent replicas, the baseline without communication
};
/// Returns the name of the reducer on the command line: "overlap", "allreduce", "none".
std::string_view name(ReducerKind kind);

/// Options of a gradient reducer.
struct ReducerOptions {
  ReducerKind kind = ReducerKind::overlap;
  std::size_t bucket_bytes = std::size_t{6} << 20;  ///< bytes of float32 gradients per bucket
  core::DataType gradient_type = core::DataType::float32;  ///< communication data type
  AllReduceAlgorithm algorithm = {};
};

/// Start and completion of the all-reduce of a bucket, in seconds since the start of the step; NaN
/// if it was not recorded.
struct BucketTimes {
  double start_seconds = 0;
  double end_seconds = 0;
};

/// Sums the flat gradient buffer over the ranks, with one all-reduce per bucket (Li et al.,
/// "PyTorch Distributed", VLDB 2020). Buckets are views of the buffer; gradients are not copied
/// into them. A reducer does not depend on the model. As a `GradientListener` it is notified during
/// the backward pass of the gradients that are final.
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
  virtual void check() {}

  /// Returns the all-reduce algorithm in use.
  virtual const AllReduceChoice& choice() const = 0;
  /// Returns the bytes of each bucket in the data type in which it is communicated; empty if
  /// nothing is reduced (also with one rank).
  virtual std::span<const std::size_t> bucket_bytes() const = 0;
  virtual std::span<const BucketTimes> bucket_times() const = 0;  ///< of the last step
};

/// Returns the length in elements of each bucket, in bucket order, if `elements` gradients are
/// divided into buckets of `bucket_bytes` bytes of float32 values. Throws `Error` (usage) if
/// `bucket_bytes` is less than the size of one float32 value.
std::vector<std::size_t> bucket_lengths(std::size_t elements, std::size_t bucket_bytes);

/// Creates a reducer for gradients in host memory. `gradients` must be zero, because the selection
/// of the algorithm sums them. The reducer records the start and end of the all-reduce of each
/// bucket on `timeline`; if `timeline` is null, it uses a clock of its own, which `begin_step`
/// starts. `communicator`, `gradients` and `timeline` must outlive the reducer. Throws
/// `AgreedError` (usage) if `options` are not available. Collective: all ranks must call this.
std::unique_ptr<GradientReducer> make_gradient_reducer(Communicator& communicator,
                                                       std::span<float> gradients,
                                                       const ReducerOptions& options,
                                                       core::Timeline* timeline = nullptr);

}  // namespace lockstep::comm
