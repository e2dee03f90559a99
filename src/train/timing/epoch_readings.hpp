// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "instrument.hpp"
#include "lockstep/backend/device.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/meter/peak_memory.hpp"
#include "lockstep/core/meter/processor_meter.hpp"
#include "lockstep/record/run_file.hpp"
#include "telemetry.hpp"

namespace lockstep::train {

/// Reads the sensors of the device, the energy meter of the host, the peak memory of this process
/// and the use of its processors at the begin and the end of each epoch.
class EpochReadings final : public Instrument {
 public:
  /// `telemetry`: has the energy meter of the host, if there is one. All must outlive this object.
  EpochReadings(const backend::Device& device, comm::Communicator& world,
                std::optional<Telemetry>& telemetry);

  void begin_epoch() override;
  void end_epoch() override;
  /// Adds the readings of the last epoch to `epoch` on rank 0. Collective: all ranks must call
  /// this.
  void add_to(record::EpochRecord& epoch) override;
  /// Returns the peak resident memory of this process in bytes, over all epochs.
  std::uint64_t peak_bytes() const { return memory_.total(); }

 private:
  /// Returns joules, or `SensorReading::unknown`.
  double host_energy();

  const backend::Device& device_;
  comm::Communicator& world_;
  std::optional<Telemetry>& telemetry_;
  core::PeakMemory memory_;
  core::ProcessorMeter processors_;
  /// Before `end_epoch`, the energies are those of the meters at the begin.
  backend::SensorReading reading_;
  double host_joules_ = 0;
  double peak_bytes_ = 0;
  core::ProcessorUsage usage_;
};

}  // namespace lockstep::train
