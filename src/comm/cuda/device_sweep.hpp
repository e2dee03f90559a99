#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/buffer.hpp"

namespace lockstep::comm {

/// Sums elements of one array in a device's memory over the ranks, and returns when they are there.
using DeviceSum = std::function<void()>;

/// `sweep_all_reduce` of arrays on the device: `memory` holds the largest, as `options.wire`.
/// `make_sum(elements)`: of the first so many. Collective.
std::vector<SweepRow> sweep_device(Communicator& control, const core::Buffer& memory,
                                   const SweepOptions& options, std::string_view way,
                                   const std::function<DeviceSum(std::size_t elements)>& make_sum);

}  // namespace lockstep::comm
