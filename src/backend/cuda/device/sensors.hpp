#pragma once

#include <memory>
#include <string>

#include "lockstep/backend/sensors.hpp"

namespace lockstep::backend::cuda {

/// A GPU's own sensors, by NVML, which comes with the driver and is opened at run time. Where it is
/// missing, or does not know the GPU or a number, the number is NaN.
class Sensors {
 public:
  /// `pci_bus_id`: "0000:17:00.0". `library`: for tests.
  explicit Sensors(const std::string& pci_bus_id, const char* library = "libnvidia-ml.so.1");
  ~Sensors();
  Sensors(const Sensors&) = delete;
  Sensors& operator=(const Sensors&) = delete;

  /// Takes some ten microseconds to a millisecond; does not disturb the GPU's work.
  SensorReading read() const;

  /// Why nothing can be read; empty where it can.
  const std::string& refusal() const { return refusal_; }

 private:
  struct Library;
  std::unique_ptr<const Library> library_;  ///< null where refused
  void* device_ = nullptr;
  std::string refusal_;
};

}  // namespace lockstep::backend::cuda
