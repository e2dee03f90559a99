#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// All-reduces one array in device memory; returns when the array holds the sum.
using DeviceSum = std::function<void()>;

/// Name of a transport and its communication data type.
struct DeviceSumKind {
  std::string_view name;
  core::DataType type = core::DataType::float32;
};

/// Benchmarks the all-reduce of arrays in device memory, like `sweep_all_reduce`. `memory` must
/// hold the largest array in the data type `options.communication_type`; `make_sum(elements)`
/// returns the all-reduce of its first `elements` elements. Throws `Error` (usage) if `sweep_sizes`
/// rejects `options`. Collective: all ranks must call this.
std::vector<SweepRow> sweep_device(Communicator& control, const core::Buffer& memory,
                                   const SweepOptions& options, const DeviceSumKind& kind,
                                   const std::function<DeviceSum(std::size_t elements)>& make_sum);

}  // namespace lockstep::comm
