// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "lockstep/backend/device.hpp"

namespace lockstep::backend::cuda {

/// Sensors of a GPU, read through NVML, which is part of the driver and is loaded at run time. A
/// reading is NaN if NVML is missing, does not know the GPU or does not provide the value.
class Sensors {
 public:
  /// `pci_bus_id`: "0000:17:00.0". `library`: file name of NVML; tests replace it.
  explicit Sensors(const std::string& pci_bus_id, const char* library = "libnvidia-ml.so.1");
  ~Sensors();

  /// Returns the current readings. Takes from about ten microseconds to a millisecond; does not
  /// disturb the work of the GPU.
  SensorReading read() const;

 private:
  struct Library;
  std::unique_ptr<const Library> library_;  ///< null if the sensors cannot be read
  void* device_ = nullptr;
};

}  // namespace lockstep::backend::cuda
