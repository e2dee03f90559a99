#pragma once

#include <memory>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/device_queue.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

/// Copies full buckets to the host on a queue of its own, sums them there and copies the sums back
/// on the queue that computes. All that is given outlives it. Throws `Error` (usage) where
/// `options` cannot be had. Collective.
std::unique_ptr<GradientReducer> make_staged_reducer(Communicator& communicator,
                                                     const core::DeviceQueue& queue,
                                                     const core::GradientArray& gradients,
                                                     const ReducerOptions& options,
                                                     core::Timeline& timeline,
                                                     std::size_t first_mark);

}  // namespace lockstep::comm
