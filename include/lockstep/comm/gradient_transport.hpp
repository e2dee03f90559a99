#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/device_queue.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

/// By what gradients travel.
enum class TransportKind {
  automatic,  ///< the best for the device: `mpi` between CPUs, `nccl` between GPUs
  mpi,        ///< the ranks' memory as it is, over MPI
  nccl,       ///< between GPUs
  staged,     ///< of GPUs, over MPI by way of the hosts' memory: for tests, and where NCCL fails
};
std::string_view name(TransportKind kind);  ///< "auto", "mpi", "nccl", "staged"

/// The seam between the devices' memories: makes what sums gradients over the ranks where the
/// devices have them. It outlives the reducers and the buffers that it has made; a reducer outlives
/// the recordings of its work and is destroyed before its gradients.
class GradientTransport {
 public:
  virtual ~GradientTransport() = default;
  GradientTransport() = default;
  GradientTransport(const GradientTransport&) = delete;
  GradientTransport& operator=(const GradientTransport&) = delete;

  /// Zeroed memory of the device for gradients, where summing them goes fastest. Collective.
  virtual core::Buffer allocate(std::size_t bytes) = 0;

  /// `gradients` are 0 and lie in memory from `allocate`. The reducer marks the beginnings and ends
  /// of buckets on `timeline`: of bucket b as `first_mark` + 2 b and the next. Throws
  /// `AgreedError` (usage) if `options` are not available. Collective.
  virtual std::unique_ptr<GradientReducer> make_reducer(const core::GradientArray& gradients,
                                                        const ReducerOptions& options,
                                                        core::Timeline& timeline,
                                                        std::size_t first_mark) = 0;

  /// Sums batch norm's statistics over the ranks, in the device's memory, in the order of its
  /// queue. The first call is collective: what it needs is made then.
  virtual core::StatisticsSum& statistics_sum() = 0;

  /// Times sums of known values where the device has them (sweep.hpp). Collective.
  virtual std::vector<SweepRow> sweep(const SweepOptions& options) = 0;

  virtual std::string library_version() const = 0;
};

struct TransportOptions {
  TransportKind kind = TransportKind::automatic;
  bool allow_sharing = false;  ///< of one GPU by several ranks of a host
};

/// Throws `AgreedError` (usage) if the kind does not fit the queue's device, this build has no such
/// transport, or two ranks of a host would use one GPU without being allowed to, naming them.
/// Collective.
std::unique_ptr<GradientTransport> make_gradient_transport(Communicator& communicator,
                                                           const core::DeviceQueue& queue,
                                                           const TransportOptions& options);

}  // namespace lockstep::comm
