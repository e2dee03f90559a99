// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string_view>

namespace lockstep::backend::cuda {

/// A device description from the folder descriptions/, built into the program.
struct DescribedDevice {
  std::string_view name;  ///< file name without extension: "h200"
  std::string_view json;
};

std::span<const DescribedDevice> all_described_devices();

}  // namespace lockstep::backend::cuda
