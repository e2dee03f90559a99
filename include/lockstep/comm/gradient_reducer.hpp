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
  AllReduceWay way = AllReduceWay::automatic;  ///< automatic: nothing is summed
  std::vector<WayTime> timed;                  ///< empty where nothing was timed
  std::size_t timed_bytes = 0;                 ///< of the float32 array that was summed
};

/// When a bucket's sum was started and complete, in seconds since `begin_step`. NaN where there was
/// none.
struct BucketTimes {
  double start_seconds = 0;
  double end_seconds = 0;
};

/// Sums the flat gradient buffer over the ranks, bucket by bucket (Li et al., "PyTorch
/// Distributed", VLDB 2020). Buckets are views of the buffer: nothing is packed. It knows no model.
class GradientReducer : public core::GradientListener {
 public:
  /// Forget the last step; the clock of the buckets starts now.
  virtual void begin_step() = 0;

  /// Blocks until more of the buffer holds the sums over all ranks than the first `elements`, or
  /// all of it; returns how much does, from the front. Collective.
  virtual std::size_t wait_beyond(std::size_t elements) = 0;

  /// Blocks until all of it does. Collective.
  void finish() { wait_beyond(std::numeric_limits<std::size_t>::max()); }

  virtual const AllReduceChoice& choice() const = 0;
  /// float32 bytes of each bucket; none where nothing is summed, one rank alone included.
  virtual std::span<const std::size_t> bucket_bytes() const = 0;
  virtual std::span<const BucketTimes> bucket_times() const = 0;  ///< of the last step
};

/// `gradients` are 0. Throws `Error` (usage) where `options` cannot be had. Collective.
std::unique_ptr<GradientReducer> make_gradient_reducer(Communicator& communicator,
                                                       std::span<float> gradients,
                                                       const ReducerOptions& options);

}  // namespace lockstep::comm
