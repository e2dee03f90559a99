#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "../reducers/bucket_transport.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/device_queue.hpp"
#include "nccl_communicator.hpp"

namespace lockstep::comm {

/// Whether the gradients' memory is registered with NCCL; it must then be from ncclMemAlloc.
enum class Registration { wanted, none };

/// All-reduces buckets with NCCL on a stream of its own, concurrently with the compute stream. The
/// host only enqueues work, the same in every step, so that steps can be captured in a CUDA graph.
class NcclBuckets final : public BucketTransport {
 public:
  /// All references must outlive this object. Collective: all ranks must call this.
  NcclBuckets(Communicator& control, NcclCalls& calls, const core::DeviceQueue& queue,
              const core::GradientArray& gradients, Registration registration,
              const BucketPartition& buckets, const BucketTimestamps& timestamps);

  void start(std::size_t bucket) override;
  std::size_t wait(std::size_t count) override;
  bool is_recordable() const override { return true; }
  void check() override { communicator_->check(); }
  const AllReduceChoice& choice() const override { return choice_; }
  core::DataType communication_type() const override { return gradients_.type; }

 private:
  /// Enqueues the all-reduce of `bucket` on `stream_`.
  void sum(std::size_t bucket);
  void warm_up();

  core::GradientArray gradients_;
  AllReduceChoice choice_;
  cudaStream_t compute_;
  core::Stream stream_;                             ///< stream of the all-reduces
  std::vector<core::Event> final_;                  ///< the gradients of a bucket are final
  std::vector<core::Event> reduced_;                ///< a bucket is reduced
  std::unique_ptr<NcclCommunicator> communicator_;  ///< destroyed before the stream
};

}  // namespace lockstep::comm
