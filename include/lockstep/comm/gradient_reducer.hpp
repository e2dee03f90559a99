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

enum class ReducerKind {
  overlap,    ///< a bucket's sum starts as soon as backward has filled it
  allreduce,  ///< everything after backward
  none,       ///< nothing travels: independent replicas, the baseline without communication
};
std::string_view name(ReducerKind kind);

struct ReducerOptions {
  ReducerKind kind = ReducerKind::overlap;
  std::size_t bucket_bytes = std::size_t{6} << 20;         ///< of float32 gradients
  core::DataType gradient_type = core::DataType::float32;  ///< what travels
  AllReduceWay way = AllReduceWay::automatic;
};

/// Seconds of one sum in a way.
struct WayTime {
  AllReduceWay way = AllReduceWay::automatic;
  double seconds = 0;
};

/// How gradients are summed, and why so.
struct AllReduceChoice {
  AllReduceWay way = AllReduceWay::automatic;  ///< automatic: nothing is summed, or NCCL chooses
  std::vector<WayTime> timed;                  ///< empty where nothing was timed
  std::size_t timed_bytes = 0;                 ///< of the float32 array that was summed
};

/// When a bucket's sum was started and complete, in seconds since the step began. NaN where there
/// was none.
struct BucketTimes {
  double start_seconds = 0;
  double end_seconds = 0;
};

/// Sums the flat gradient buffer over the ranks, bucket by bucket (Li et al., "PyTorch
/// Distributed", VLDB 2020). Buckets are views of the buffer: nothing is packed. It knows no model.
class GradientReducer : public core::GradientListener {
 public:
  /// Forgets the last step.
  virtual void begin_step() = 0;

  /// Blocks until more of the buffer holds the sums over all ranks than the first `elements`, or
  /// all of it; returns how much does, from the front. Where a device's queue can wait, that is
  /// what blocks: what is queued from here on finds the sums. Collective.
  virtual std::size_t wait_beyond(std::size_t elements) = 0;

  /// Blocks until all of it does. Collective.
  void finish() { wait_beyond(std::numeric_limits<std::size_t>::max()); }

  /// Whether its work of a step is the same every time and is queued on the device, so that the
  /// device may record it once and replay it.
  virtual bool is_recordable() const { return true; }

  /// To be called again and again while somebody waits for the device. Throws `Error` (internal)
  /// where communication has failed; what the device still waits for has been ended then.
  virtual void check() {}

  virtual const AllReduceChoice& choice() const = 0;
  /// Bytes of each bucket in the data type in which it is communicated; empty if nothing is summed
  /// (also with one rank).
  virtual std::span<const std::size_t> bucket_bytes() const = 0;
  virtual std::span<const BucketTimes> bucket_times() const = 0;  ///< of the last step
};

/// Returns the elements of each bucket into which `elements` gradients are cut, in the order of the
/// buckets. Throws `Error` (usage) if a bucket of `bucket_bytes` holds less than one float32 value.
std::vector<std::size_t> bucket_lengths(std::size_t elements, std::size_t bucket_bytes);

/// `gradients` are 0. Beginnings and ends of buckets are marked on `timeline` from `first_mark` on;
/// without one, on a clock of its own, which `begin_step` starts. Throws `AgreedError` (usage)
/// if `options` are not available. Collective.
std::unique_ptr<GradientReducer> make_gradient_reducer(Communicator& communicator,
                                                       std::span<float> gradients,
                                                       const ReducerOptions& options,
                                                       core::Timeline* timeline = nullptr,
                                                       std::size_t first_mark = 1);

}  // namespace lockstep::comm
