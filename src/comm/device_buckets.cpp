#include "device_buckets.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

BucketSchedule cut_device_gradients(Communicator& communicator,
                                    const core::GradientArray& gradients,
                                    const ReducerOptions& options) {
  return cut_gradients(communicator, gradients.elements, options, [&] {
    if (gradients.type == options.gradient_type) return;
    core::fail(core::ExitStatus::usage,
               fmt::format("a GPU's gradients are sent in the data type that they have: they are "
                           "{} and cannot travel as {}",
                           core::name(gradients.type), core::name(options.gradient_type)));
  });
}

}  // namespace lockstep::comm
