#pragma once

#include <memory>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/device_queue.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

/// Creates a reducer that copies full buckets to the host on a stream of its own, all-reduces them
/// there and copies the sums back on the compute stream. All arguments must outlive the reducer.
/// Throws `AgreedError` (usage) if `options` are not available. Collective: all ranks must call
/// this.
std::unique_ptr<GradientReducer> make_staged_reducer(Communicator& communicator,
                                                     const core::DeviceQueue& queue,
                                                     const core::GradientArray& gradients,
                                                     const ReducerOptions& options,
                                                     core::Timeline& timeline);

}  // namespace lockstep::comm
