// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/backend/device.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/meter/host_meter.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "lockstep/record/run_records.hpp"
#include "lockstep/train/events.hpp"

namespace lockstep::train {

/// Intervals between samples of a run of unknown length. After every `samples_per_interval` samples
/// the interval doubles, until it has reached `longest`, so that the number of samples grows with
/// the logarithm of the duration; later it is one sample per `longest`.
class SamplingIntervals {
 public:
  static constexpr std::size_t samples_per_interval = 4096;
  /// RAPL counters must be read more often than they wrap around (`core::EnergyMeter`).
  static constexpr std::chrono::nanoseconds longest = std::chrono::seconds(60);

  /// `hertz`: number of samples per second at first.
  explicit SamplingIntervals(double hertz);

  /// Counts a sample and returns the time until the next one.
  std::chrono::nanoseconds next();

 private:
  std::chrono::nanoseconds interval_;
  std::size_t samples_ = 0;
};

/// Values with which a source describes a sample.
struct SampleTime {
  double seconds = 0;      ///< since the origin of the clock
  double cpu_seconds = 0;  ///< processor time of the sampling thread before this sample
};

/// A thread that takes samples of a source at regular intervals, from the construction to the
/// destruction. It allocates no memory after the construction. If `most_samples` have been taken
/// since the last call of `take`, further samples are dropped.
class TelemetrySampler {
 public:
  /// Fills the row of a sample. Calls of the source do not overlap.
  using Source = std::function<void(const SampleTime&, std::span<double>)>;

  /// All intervals of `SamplingIntervals` at up to 100 Hz, and the longest one for 5 days.
  static constexpr std::size_t most_samples = std::size_t{1} << 16;

  /// `width`: number of values per sample. `hertz`: samples per second at first, above 0. `origin`:
  /// origin of the clock, a time of `core::host_seconds`.
  TelemetrySampler(std::size_t width, double hertz, double origin, Source source,
                   std::size_t limit = most_samples);

  /// Takes a sample, so that the last interval ends now. Returns (sample, value), all samples since
  /// the last call.
  std::vector<double> take();

 private:
  void run(const std::stop_token& stop);
  void sample(double cpu_seconds);  ///< requires `mutex_`

  const std::size_t width_, limit_;
  const double origin_;
  const Source source_;
  SamplingIntervals intervals_;
  std::mutex mutex_;
  std::condition_variable_any stopping_;
  /// (limit, width), not initialised, so that the memory is only used by the samples.
  std::unique_ptr<double[]> rows_;
  std::size_t count_ = 0;
  double cpu_seconds_ = 0;
  std::jthread thread_;  ///< last member: joined before the members above are destroyed
};

/// Samples the resources of this rank, of its host and of its device during the training, for the
/// group /telemetry of the run file.
class Telemetry final : public TrainingListener {
 public:
  /// Opens the counters. `hertz`: samples per second at first, above 0. The device and the
  /// communicator must outlive the object. Collective.
  Telemetry(const backend::Device& device, comm::Communicator& world, double hertz);

  /// Returns the names of the interfaces of all ranks (`record::RunHeader`).
  const std::vector<std::string>& interfaces() const { return interfaces_; }

  /// Returns the zones of the host whose energy is measured, or "not readable: REASON".
  std::string host_energy_source() const;
  /// Returns the energy of the host since the construction in joules; NaN if it is not readable.
  double host_energy_joules();

  /// Starts the sampling. `origin`: origin of the clock of the samples.
  void run_begin(double origin) override;
  /// Adds the samples of all ranks since the last call, ordered by rank, on rank 0. Collective.
  void epoch_end(record::EpochRecord& epoch) override;
  void run_end(RunSummary&) override { sampler_.reset(); }

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
  /// Last member: stopped before the members above are destroyed.
  std::optional<TelemetrySampler> sampler_;
};

}  // namespace lockstep::train
