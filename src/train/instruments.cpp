// SPDX-License-Identifier: BSD-3-Clause
#include "instruments.hpp"

#include <array>
#include <ranges>
#include <utility>

#include "lockstep/comm/clock_offset.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "pipeline/pipeline_plan.hpp"

namespace lockstep::train {

/// Reads the sensors of the device, the energy meter of the host, the peak memory of this process
/// and the use of its processors at the begin and the end of each epoch.
class Instruments::EpochReadings final : public Instrument {
 public:
  EpochReadings(const TrainingContext& context, std::optional<Telemetry>& telemetry)
      : device_(context.backend.device()), world_(context.world), telemetry_(telemetry) {}

  void begin_epoch() override {
    reading_ = device_.read_sensors();
    host_joules_ = host_energy();
    memory_.begin_interval();
    processors_.begin_interval();
  }

  void end_epoch() override {
    usage_ = processors_.interval();
    const double energy_before = reading_.energy_joules;
    reading_ = device_.read_sensors();
    reading_.energy_joules -= energy_before;
    host_joules_ = host_energy() - host_joules_;
    peak_bytes_ = static_cast<double>(memory_.interval());
  }

  void add_to(record::EpochRecord& epoch) override {
    const auto gather = [&](double value) { return comm::gather(world_, value); };
    epoch.measurements["/epochs/energy_joules"] = gather(reading_.energy_joules);
    epoch.measurements["/epochs/host_energy_joules"] = gather(host_joules_);
    epoch.measurements["/epochs/utilisation"] = gather(reading_.utilisation);
    epoch.measurements["/epochs/memory_used_bytes"] = gather(reading_.memory_bytes);
    epoch.measurements["/epochs/peak_resident_memory_bytes"] = gather(peak_bytes_);
    epoch.measurements["/epochs/cpu_seconds"] = gather(usage_.cpu_seconds);
    epoch.measurements["/epochs/run_delay_seconds"] = gather(usage_.run_delay_seconds);
    epoch.measurements["/epochs/processor_busy_seconds"] = gather(usage_.busy_seconds);
    epoch.measurements["/epochs/other_processor_busy_seconds"] = gather(usage_.other_busy_seconds);
    epoch.measurements["/epochs/processor_steal_seconds"] = gather(usage_.steal_seconds);
    epoch.measurements["/epochs/throttled_periods"] = gather(usage_.throttled_periods);
  }

  std::uint64_t peak_bytes() const { return memory_.total(); }

 private:
  double host_energy() {
    return telemetry_ ? telemetry_->host_energy_joules() : backend::SensorReading::unknown;
  }

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

namespace {

/// Measures, at the begin and the end of each epoch, the offset of the clock of every rank's
/// timeline to the clock of rank 0's host, so that times of different ranks can be compared.
class RankClocks final : public Instrument {
 public:
  RankClocks(comm::Communicator& communicator, core::Timeline& timeline)
      : communicator_(communicator), timeline_(timeline) {}

  void begin_epoch() override { measure(0); }
  void end_epoch() override { measure(1); }

  void add_to(record::EpochRecord& epoch) override {
    std::vector<double> seconds, errors;
    for (std::size_t rank = 0; rank < offsets_.front().size(); ++rank) {
      for (const auto& offsets : offsets_) {
        seconds.push_back(offsets[rank].seconds);
        errors.push_back(offsets[rank].error);
      }
    }
    if (seconds.empty()) return;
    epoch.measurements["/epochs/clock_offset_seconds"] = std::move(seconds);
    epoch.measurements["/epochs/clock_error_seconds"] = std::move(errors);
  }

 private:
  /// Sets the clock of the timeline to that of the host, and measures.
  void measure(std::size_t reading) {
    const core::ClockCorrection own = timeline_.set_clock();
    std::vector<comm::ClockOffset>& offsets = offsets_[reading];
    offsets = comm::measure_clock_offsets(communicator_);
    // A timeline has no drift at the begin of an epoch, because its clock has just been set.
    const core::ClockCorrection change{reading == 0 ? 0.0 : own.drift, own.error};
    const auto timelines = comm::gather(communicator_, change);
    for (std::size_t rank = 0; rank < offsets.size(); ++rank) {
      offsets[rank].seconds += timelines[rank].drift;
      offsets[rank].error += timelines[rank].error;
    }
  }

  comm::Communicator& communicator_;
  core::Timeline& timeline_;
  /// (reading), (rank) on rank 0
  std::array<std::vector<comm::ClockOffset>, record::clock_reading_names.size()> offsets_;
};

/// Records the durations of the passes, copies and waits of a pipeline.
class PipelineTimes final : public Instrument {
 public:
  PipelineTimes(backend::Plan& plan, comm::Communicator& world)
      : plan_(static_cast<PipelinePlan&>(plan)), world_(world) {}

  void begin_epoch() override { plan_.reset_seconds(); }
  void add_to(record::EpochRecord& epoch) override {
    const PipelineSeconds& seconds = plan_.seconds();
    epoch.measurements["/epochs/pipeline_busy_seconds"] = comm::gather(world_, seconds.busy);
    epoch.measurements["/epochs/pipeline_transfer_seconds"] =
        comm::gather(world_, seconds.transfer);
    epoch.measurements["/epochs/pipeline_wait_seconds"] = comm::gather(world_, seconds.wait);
  }

 private:
  PipelinePlan& plan_;
  comm::Communicator& world_;
};

}  // namespace

Instruments::Instruments(const TrainingContext& context, Replica& replica, std::int64_t steps,
                         std::size_t buckets, Instrument& saver)
    : world_(context.world), log_(context.world, static_cast<std::size_t>(steps), buckets) {
  if (context.config.telemetry_hertz > 0) {
    telemetry_.emplace(context.backend.device(), context.world, context.config.telemetry_hertz);
    all_.push_back(&*telemetry_);
  }
  const auto own = [&](std::unique_ptr<Instrument> instrument) {
    all_.push_back(owned_.emplace_back(std::move(instrument)).get());
  };
  if (buckets > 0) own(std::make_unique<RankClocks>(context.world, replica.plan->timeline()));
  if (context.pipeline != nullptr)
    own(std::make_unique<PipelineTimes>(*replica.plan, context.world));
  all_.insert(all_.end(), {&saver, &log_});
  auto readings = std::make_unique<EpochReadings>(context, telemetry_);
  readings_ = readings.get();
  own(std::move(readings));
}

std::uint64_t Instruments::peak_bytes() const { return readings_->peak_bytes(); }

void Instruments::begin_epoch() {
  // Rank 0 may have written files since the last epoch. The other ranks wait for it here, so that
  // this time is part of no measurement.
  world_.barrier();
  for (Instrument* instrument : all_) instrument->begin_epoch();
  world_.barrier();
}

void Instruments::end_epoch() {
  for (Instrument* instrument : std::views::reverse(all_)) instrument->end_epoch();
}

void Instruments::add_to(record::EpochRecord& epoch) {
  for (Instrument* instrument : all_) instrument->add_to(epoch);
}

void Instruments::describe(RunDescription& description) const {
  if (!telemetry_) return;
  description.telemetry_interfaces = telemetry_->interfaces();
  description.host_energy_source = telemetry_->host_energy_source();
}

}  // namespace lockstep::train
