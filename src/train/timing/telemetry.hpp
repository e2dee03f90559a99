// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "instrument.hpp"
#include "lockstep/backend/device.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/meter/energy_meter.hpp"
#include "lockstep/core/meter/network_meter.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "lockstep/record/run_file.hpp"
#include "telemetry_sampler.hpp"

namespace lockstep::train {

/// Samples the resources of this rank, of its host and of its device during the training, for the
/// group /telemetry of the run file.
class Telemetry final : public Instrument {
 public:
  /// Opens the counters. `hertz`: samples per second at first, above 0. The device and the
  /// communicator must outlive the object. Collective.
  Telemetry(const backend::Device& device, comm::Communicator& world, double hertz);

  /// Starts the sampling. `origin`: origin of the clock of the samples, a time of
  /// `core::host_seconds`.
  void begin(double origin);
  void end();

  /// Returns the names of the interfaces of all ranks (`record::RunHeader`).
  const std::vector<std::string>& interfaces() const { return interfaces_; }

  /// Returns the zones of the host whose energy is measured, or "not readable: REASON".
  std::string host_energy_source() const;
  /// Returns the energy of the host since the construction in joules; NaN if it is not readable.
  double host_energy_joules();

  /// Adds the samples of all ranks since the last call, ordered by rank, on rank 0. Requires
  /// `begin`. Collective.
  void add_to(record::EpochRecord& epoch) override;

 private:
  void fill(const SampleTime& time, std::span<double> row);
  std::size_t width() const;

  const backend::Device& device_;
  comm::Communicator& world_;
  double hertz_;
  core::ProcessMeter process_;
  core::NetworkMeter network_;
  std::mutex energy_mutex_;  ///< the sampler and the trainer read the energy
  core::EnergyMeter energy_;
  std::vector<std::string> interfaces_;        ///< (rank, interface)
  std::vector<core::NetworkTraffic> traffic_;  ///< (interface) of this rank
  double first_device_energy_ = 0;
  std::optional<TelemetrySampler>
      sampler_;  ///< last member: stopped before the members above are destroyed
};

}  // namespace lockstep::train
