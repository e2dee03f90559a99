#pragma once

#include "bucket_schedule.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/device_queue.hpp"

namespace lockstep::comm {

/// The buckets in which a device's gradients are summed: none for one rank alone and where nothing
/// is to travel. Throws `AgreedError` (usage) if the data type to send is not that of the
/// device's gradients. Collective.
BucketSchedule cut_device_gradients(Communicator& communicator,
                                    const core::GradientArray& gradients,
                                    const ReducerOptions& options);

}  // namespace lockstep::comm
