#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// Sums elements of one array in a device's memory over the ranks, and returns when they are there.
using DeviceSum = std::function<void()>;

/// Name of a transport and the data type in which it communicates between the ranks.
struct DeviceSumKind {
  std::string_view name;
  core::DataType type = core::DataType::float32;
};

/// `sweep_all_reduce` for arrays on the device. `memory` holds the largest array as
/// `options.wire`; `make_sum(elements)` returns a sum of its first elements. Collective.
std::vector<SweepRow> sweep_device(Communicator& control, const core::Buffer& memory,
                                   const SweepOptions& options, const DeviceSumKind& kind,
                                   const std::function<DeviceSum(std::size_t elements)>& make_sum);

}  // namespace lockstep::comm
