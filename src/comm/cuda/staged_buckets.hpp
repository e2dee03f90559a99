#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <vector>

#include "../bucket_all_reduces.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/device_queue.hpp"

namespace lockstep::comm {

/// Copies buckets to the host on a stream of its own, all-reduces them there in float32, and copies
/// the sums back on the compute stream.
class StagedBuckets final : public BucketTransport {
 public:
  /// All references must outlive this object. Throws `AgreedError` (usage) if `algorithm` is not
  /// available. Collective: all ranks must call this.
  StagedBuckets(Communicator& communicator, const core::DeviceQueue& queue,
                const core::GradientArray& gradients, AllReduceAlgorithm algorithm,
                const BucketPartition& buckets, const BucketTimestamps& timestamps);

  void begin_step() override;
  void start(std::size_t bucket) override;
  void progress() override { advance(); }
  std::size_t wait(std::size_t count) override;
  bool is_recordable() const override { return false; }
  const AllReduceChoice& choice() const override { return all_reduces_->choice(); }
  core::DataType communication_type() const override { return core::DataType::float32; }

 private:
  /// Memory of one bucket: gradients on the device, their copy in pinned host memory, and their
  /// sums.
  struct Place {
    std::byte* device;
    std::byte* host;
    std::size_t bytes;
    std::span<float> sums;
  };

  Place place(std::size_t bucket) const;
  bool is_on_host(std::size_t bucket) const;
  std::size_t advance();
  void return_up_to(std::size_t count);

  core::GradientArray gradients_;
  cudaStream_t compute_;
  core::Buffer pinned_;              ///< gradients in the data type of the device
  core::Buffer sums_;                ///< gradients and their sums in float32
  core::Stream stream_;              ///< stream of the copies to the host
  std::vector<core::Event> final_;   ///< the gradients of a bucket are final
  std::vector<core::Event> copied_;  ///< a bucket is on the host
  std::optional<BucketAllReduces> all_reduces_;
  std::size_t copying_ = 0;   ///< leading buckets whose copies to the host were enqueued
  std::size_t reducing_ = 0;  ///< leading buckets whose all-reduces were started
  std::size_t returned_ = 0;  ///< leading buckets whose copies to the device were enqueued
};

}  // namespace lockstep::comm
