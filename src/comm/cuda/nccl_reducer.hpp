#pragma once

#include <memory>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/device_queue.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/core/timeline.hpp"
#include "nccl_calls.hpp"

namespace lockstep::comm {

/// Whether the gradients' memory is registered with NCCL; it must then be from ncclMemAlloc.
enum class Registration { wanted, none };

/// Creates a reducer that all-reduces buckets with NCCL on a stream of its own, concurrently with
/// the compute stream. The host only enqueues work, the same in every step, so that steps can be
/// captured in a CUDA graph. NCCL is not used if there is only one rank or `options` request no
/// all-reduce. Throws `AgreedError` (usage) if `options` are not available. All arguments must
/// outlive the reducer. Collective: all ranks must call this.
std::unique_ptr<GradientReducer> make_nccl_reducer(Communicator& control, NcclCalls& calls,
                                                   const core::DeviceQueue& queue,
                                                   const core::GradientArray& gradients,
                                                   const ReducerOptions& options,
                                                   core::Timeline& timeline,
                                                   Registration registration);

/// Creates the all-reduce of batch-norm statistics on the compute stream. It has a communicator of
/// its own, because the all-reduces of buckets run at the same time. Collective: all ranks must
/// call this.
std::unique_ptr<core::StatisticsAllReduce> make_nccl_statistics_all_reduce(
    Communicator& control, NcclCalls& calls, const core::DeviceQueue& queue);

}  // namespace lockstep::comm
