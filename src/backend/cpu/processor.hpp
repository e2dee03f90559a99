// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "lockstep/backend/device.hpp"

namespace lockstep::backend::cpu {

/// The processor of the host. Plans use host memory.
class Processor final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string name() const override;
  std::string library_versions() const override;
};

}  // namespace lockstep::backend::cpu
