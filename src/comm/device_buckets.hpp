#pragma once

#include "bucket_schedule.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/device_queue.hpp"

namespace lockstep::comm {

/// Returns the buckets in which the gradients of a device are reduced; there are none if there is
/// only one rank or `options` request no all-reduce. Throws `AgreedError` (usage) if the
/// communication data type is not the data type of the gradients in device memory. Collective: all
/// ranks must call this.
BucketSchedule cut_device_gradients(Communicator& communicator,
                                    const core::GradientArray& gradients,
                                    const ReducerOptions& options);

}  // namespace lockstep::comm
