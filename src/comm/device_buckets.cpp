#include "device_buckets.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

BucketSchedule cut_device_gradients(const Communicator& communicator,
                                    const core::GradientArray& gradients,
                                    const ReducerOptions& options) {
  if (gradients.type != options.gradient_type) {
    core::fail(core::ExitStatus::usage,
               fmt::format("a GPU's gradients travel as they are: they are {} and cannot travel as "
                           "{}",
                           core::name(gradients.type), core::name(options.gradient_type)));
  }
  const BucketSchedule buckets(gradients.elements, options.bucket_bytes);
  if (options.kind == ReducerKind::none || communicator.size() == 1)
    return BucketSchedule::without_buckets(gradients.elements);
  return buckets;
}

}  // namespace lockstep::comm
