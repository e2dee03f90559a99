// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "all_reduce/resources.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "reducers/bucket_reducer.hpp"

namespace lockstep::comm {

/// Sums buckets in host memory.
class HostReducer final : public BucketReducer {
 public:
  /// Selects the algorithm and prepares the all-reduces. `values` must be zero. `options`: the
  /// algorithm, the communication data type, and the reducer, which may define its own sums. Throws
  /// `AgreedError` (usage) if the algorithm is not available. Collective: all ranks must call this.
  HostReducer(AllReduceResources& resources, std::span<float> values, const ReducerOptions& options,
              const BucketPartition& partition, const BucketTimestamps& timestamps);

  void reset() override;
  void start(std::size_t bucket) override;
  void progress() override { advance(); }
  std::size_t wait(std::size_t count) override;
  /// Advances the all-reduces in progress without blocking; returns the number of leading buckets
  /// that are reduced.
  std::size_t advance();

  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_bytes() const override { return bucket_bytes_; }
  std::span<const BucketTimes> bucket_times() const override {
    return timestamps().read(call_seconds_);
  }
  Traffic traffic() const override;
  std::span<float> state() override { return state_.as<float>(); }

 private:
  struct Bucket {
    std::unique_ptr<AllReduce> all_reduce;
    bool is_reduced;
  };

  /// As `advance()`. `since`: time of the host up to which `call_seconds_` is complete.
  std::size_t advance(double& since);

  AllReduceChoice choice_;
  core::Buffer state_;
  std::vector<std::size_t> bucket_bytes_;
  std::vector<Bucket> all_reduces_;
  std::vector<double> call_seconds_;  ///< (bucket) time of this rank in the functions above
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

/// Creates the transport for gradients in GPU memory with NCCL. `control` transports everything
/// else and must outlive the transport. The device of `queue` must be the current one.
/// `shares_gpus`: ranks share GPUs; environment variables then tell NCCL that every rank is on a
/// separate host. NCCL is not used if there is only one rank. Only in builds with CUDA. Collective:
/// all ranks must call this.
std::unique_ptr<GradientTransport> make_nccl_transport(Communicator& control,
                                                       const core::DeviceQueue& queue,
                                                       bool shares_gpus);

/// Sets the environment variables that NCCL needs for several ranks on one GPU, unless they are
/// set. Only in builds with CUDA.
void prepare_shared_gpus(const Communicator& control);

/// Identifies the GPU on which a rank computes.
struct GpuPlace {
  int host = 0;     ///< `Communicator::host`
  std::string gpu;  ///< UUID of the GPU, or of the part of one (MIG)
  std::string host_name = {};

  static auto fields(auto& self) { return std::tie(self.host, self.gpu, self.host_name); }
  bool operator==(const GpuPlace&) const = default;
};

/// Returns the first two ranks that use the same GPU; empty if there are none.
std::optional<std::pair<int, int>> first_sharers(std::span<const GpuPlace> places);

/// Returns whether any ranks share a GPU. `gpu`: `DeviceQueue::uuid` of this rank. Throws
/// `AgreedError` (usage), naming two ranks, if they do and `is_allowed` is false. Collective: all
/// ranks must call this.
bool find_shared_gpus(Communicator& communicator, const std::string& gpu, bool is_allowed);

/// Throws `Error` (usage) if the communication data type is not the data type of the gradients in
/// device memory, which transports of devices require.
void check_device_type(const core::GradientArray& gradients, const ReducerOptions& options);

}  // namespace lockstep::comm
