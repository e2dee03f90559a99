// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/device.hpp"
#include "device/sensors.hpp"
#include "lockstep/backend/device.hpp"

namespace lockstep::backend::cuda {

/// An NVIDIA GPU of this machine, or the description of a target GPU that is not present.
class Gpu final : public Device {
 public:
  /// Throws `Error` (usage) if there is no GPU or driver, if the GPU or driver is too old, or if
  /// `options.target_gpu` names a GPU without a description.
  explicit Gpu(const DeviceOptions& options);

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override;
  std::string library_versions() const override;
  core::DeviceQueue queue() const override;
  std::optional<std::uint64_t> available_memory() const override;
  std::optional<DeviceIdentity> identity() const override;
  SensorReading read_sensors() const override;

  const Target& target() const { return target_; }
  /// Throws `Error` (usage) if the GPU is not present. `what`: the action that needs it.
  void require_presence(std::string_view what) const;

 private:
  Target target_;
  std::unique_ptr<const Sensors> sensors_;  ///< null if the GPU is not present
};

}  // namespace lockstep::backend::cuda
