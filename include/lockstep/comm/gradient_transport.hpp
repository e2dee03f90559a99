// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

class BucketTimestamps;
class BucketReducer;

/// Gradient transport: the library and the memory through which gradients are communicated.
enum class TransportKind {
  automatic,  ///< `mpi` for CPUs, `nccl` for GPUs
  mpi,        ///< MPI, from gradients in host memory
  nccl,       ///< NCCL, from gradients in GPU memory
  staged,  ///< MPI, with GPU gradients staged through host memory: for tests, and for use if NCCL
           ///< fails
};
std::span<const core::NamedValue<TransportKind>> named_values(TransportKind);

/// Copies a fixed array in device memory from rank 0 to all ranks, once per step.
class ParameterBroadcast {
 public:
  virtual ~ParameterBroadcast() = default;
  ParameterBroadcast() = default;
  ParameterBroadcast(const ParameterBroadcast&) = delete;
  ParameterBroadcast& operator=(const ParameterBroadcast&) = delete;

  /// Blocks until the array is copied. If the stream of the device can wait for it, the stream
  /// blocks instead of the host. Collective: all ranks must call this.
  virtual void run() = 0;
  virtual void throw_if_failed() {}     ///< see `GradientReducer`
  virtual Traffic traffic() const = 0;  ///< messages of this rank in the last `run`
};

/// A gradient transport: allocates gradient buffers in the memory of the device and creates the
/// reducers that sum them over the ranks of a communicator. Derived classes define how the buckets
/// of a buffer are summed. The communicator must outlive the transport, and the transport must
/// outlive its reducers and buffers. A reducer must outlive the CUDA graphs that captured its work
/// and must be destroyed before its gradients.
class GradientTransport {
 public:
  virtual ~GradientTransport() = default;
  explicit GradientTransport(Communicator& communicator) : communicator_(communicator) {}
  GradientTransport(const GradientTransport&) = delete;
  GradientTransport& operator=(const GradientTransport&) = delete;

  /// Returns zeroed device memory for gradients, of the kind in which all-reduces are fastest.
  /// Collective: all ranks must call this.
  virtual core::Buffer allocate(std::size_t bytes) = 0;

  /// Creates the reducer of `gradients`, which must be zero and in memory from `allocate`. The
  /// reducer records the start and end of the all-reduce of each bucket on `timeline`. Throws
  /// `AgreedError` (usage) if `options` are not available. Collective: all ranks must call this.
  std::unique_ptr<GradientReducer> make_reducer(const core::GradientArray& gradients,
                                                const ReducerOptions& options,
                                                core::Timeline& timeline);

  /// Creates the broadcast of `values`, an array of float32 in device memory that must outlive it.
  /// Its values are undefined afterwards on all ranks but rank 0. There must be several ranks.
  /// Collective: all ranks must call this.
  virtual std::unique_ptr<ParameterBroadcast> make_broadcast(const core::GradientArray& values) = 0;

  /// Returns the all-reduce of batch-norm statistics over the ranks; it works on device memory and
  /// in the order of the device's stream. The first call is collective, because it creates the
  /// object.
  virtual core::StatisticsAllReduce& statistics_all_reduce() = 0;

  /// Benchmarks all-reduces of arrays in device memory and checks their results (sweep.hpp).
  /// Collective: all ranks must call this.
  virtual std::vector<SweepRow> sweep(const SweepOptions& options) = 0;

  /// Returns the name and version of the library that transports the gradients.
  virtual std::string library_version() const = 0;

  /// Returns the warnings so far about all-reduces that are slower than they could be; the same on
  /// all ranks.
  virtual std::vector<std::string> warnings() const { return {}; }

 protected:
  Communicator& communicator() const { return communicator_; }

 private:
  /// Throws `Error` (usage) if the transport cannot sum these gradients with these options.
  virtual void check_options(const core::GradientArray& gradients,
                             const ReducerOptions& options) const = 0;
  /// Creates the reducer of at least one bucket. Collective: all ranks must call this.
  virtual std::unique_ptr<BucketReducer> make_bucket_reducer(
      const core::GradientArray& gradients, const ReducerOptions& options,
      const BucketPartition& buckets, const BucketTimestamps& timestamps) = 0;

  Communicator& communicator_;
};

/// Options of a gradient transport.
struct TransportOptions {
  TransportKind kind = TransportKind::automatic;
  bool allow_sharing = false;  ///< several ranks of a host may use one GPU
};

/// Creates a gradient transport for gradients in the memory of the device of `queue`. Throws
/// `AgreedError` (usage) if `options.kind` does not support this device or is not part of this
/// build, or if two ranks of a host use the same GPU and `options.allow_sharing` is false; the
/// message names the two ranks. Collective: all ranks must call this.
std::unique_ptr<GradientTransport> make_gradient_transport(Communicator& communicator,
                                                           const core::DeviceQueue& queue,
                                                           const TransportOptions& options);

}  // namespace lockstep::comm
