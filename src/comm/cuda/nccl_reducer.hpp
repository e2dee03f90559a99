#pragma once

#include <memory>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/device_queue.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/core/timeline.hpp"
#include "nccl_calls.hpp"

namespace lockstep::comm {

/// Whether NCCL may sum in the gradients' memory itself (they lie in memory of ncclMemAlloc).
enum class Registration { wanted, none };

/// Sums buckets on a queue of its own, beside the one that computes. The host only queues work, the
/// same every step: it can be recorded. One rank alone, or nothing that travels: without NCCL.
/// Throws `Error` (usage) where `options` cannot be had. All that is given outlives it. Collective.
std::unique_ptr<GradientReducer> make_nccl_reducer(Communicator& control, NcclCalls& calls,
                                                   const core::DeviceQueue& queue,
                                                   const core::GradientArray& gradients,
                                                   const ReducerOptions& options,
                                                   core::Timeline& timeline, std::size_t first_mark,
                                                   Registration registration);

/// Sums on the queue that computes. It has a communicator of its own: sums of buckets run at the
/// same time. Collective.
std::unique_ptr<core::StatisticsSum> make_nccl_statistics_sum(Communicator& control,
                                                              NcclCalls& calls,
                                                              const core::DeviceQueue& queue);

}  // namespace lockstep::comm
