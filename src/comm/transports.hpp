// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "all_reduce/resources.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "reducers/bucket_reducer.hpp"

namespace lockstep::comm {

/// The all-reduces of the buckets of an array in host memory.
class BucketAllReduces {
 public:
  /// Selects the algorithm and prepares the all-reduces. `values` must be zero. `options`: the
  /// algorithm, the communication data type, and the reducer, which may define its own sums. Throws
  /// `AgreedError` (usage) if the algorithm is not available. Collective: all ranks must call this.
  BucketAllReduces(AllReduceResources& resources, std::span<float> values,
                   const BucketPartition& buckets, const ReducerOptions& options);

  void begin_step();
  /// Starts the all-reduce of the next bucket. `timestamps`: records its start; may be null.
  void start(BucketTimestamps* timestamps = nullptr);
  /// Advances the all-reduces in progress without blocking; returns the number of leading buckets
  /// that are reduced. `timestamps`: records the end of each all-reduce; may be null.
  std::size_t progress(BucketTimestamps* timestamps = nullptr);
  /// Blocks until the first `count` buckets are reduced; returns the number of leading buckets that
  /// are reduced. `timestamps`: as for `progress`.
  std::size_t wait(std::size_t count, BucketTimestamps* timestamps = nullptr);

  const AllReduceChoice& choice() const { return choice_; }
  const std::vector<std::size_t>& bucket_bytes() const { return bucket_bytes_; }
  std::span<float> state() { return state_.as<float>(); }  ///< see `GradientReducer`
  Traffic traffic() const;  ///< messages of this rank in the last step
  /// Returns the time that this rank spent in the functions above in the last step, divided among
  /// the buckets that they advanced.
  std::span<const double> call_seconds() const { return call_seconds_; }

 private:
  struct Bucket {
    std::unique_ptr<AllReduce> all_reduce;
    bool is_reduced;
  };

  /// As `progress`. `since`: time of the host up to which `call_seconds_` is complete.
  std::size_t advance(BucketTimestamps* timestamps, double& since);

  AllReduceChoice choice_;
  core::Buffer state_;
  std::vector<std::size_t> bucket_bytes_;
  std::vector<Bucket> buckets_;
  std::vector<double> call_seconds_;  ///< (bucket)
  std::size_t started_ = 0;           ///< number of leading buckets that were started
  std::size_t reduced_ = 0;           ///< number of leading buckets that are reduced
};

/// Creates the transport for gradients in host memory over `communicator`, which must outlive it.
/// Gradients are float32; `AllReduce` converts them for communication.
std::unique_ptr<GradientTransport> make_host_transport(Communicator& communicator);

/// Creates the transport for gradients in GPU memory over `communicator`: they are staged through
/// host memory and summed there in float32. The host takes part in every step, so that steps cannot
/// be captured in a CUDA graph. The device of `queue` must be the current one. `communicator` must
/// outlive the transport. Only in builds with CUDA.
std::unique_ptr<GradientTransport> make_staged_transport(Communicator& communicator,
                                                         const core::DeviceQueue& queue);

/// Throws `Error` (usage) if the communication data type is not the data type of the gradients in
/// device memory, which transports of devices require.
void check_device_type(const core::GradientArray& gradients, const ReducerOptions& options);

}  // namespace lockstep::comm
