#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

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
  std::size_t bucket_bytes = std::size_t{25} << 20;        ///< of float32 gradients
  core::DataType gradient_type = core::DataType::float32;  ///< what travels
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

  /// Blocks until the buffer holds the sums over all ranks. Collective.
  virtual void finish() = 0;

  virtual std::span<const std::size_t> bucket_bytes() const = 0;  ///< float32 bytes of each bucket
  virtual std::span<const BucketTimes> bucket_times() const = 0;  ///< of the last step
};

/// Collective.
std::unique_ptr<GradientReducer> make_gradient_reducer(Communicator& communicator,
                                                       std::span<float> gradients,
                                                       const ReducerOptions& options);

}  // namespace lockstep::comm
