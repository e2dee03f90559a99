// SPDX-License-Identifier: BSD-3-Clause
#include "instruments.hpp"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/clock_offset.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "pipeline/pipeline_plan.hpp"
#include "timing/step_log.hpp"
#include "timing/telemetry.hpp"

namespace lockstep::train {

namespace {

/// Reads the sensors of the device, the energy meter of the host, the peak memory of this process
/// and the use of its processors at the begin and the end of each epoch.
class EpochReadings final : public TrainingListener {
 public:
  /// `telemetry`: reads the energy of the host; may be null.
  EpochReadings(const TrainingContext& context, Telemetry* telemetry)
      : device_(context.backend.device()), world_(context.world), telemetry_(telemetry) {}

  void epoch_begin() override {
    reading_ = device_.read_sensors();
    host_joules_ = host_energy();
    memory_.begin_interval();
    processors_.begin_interval();
  }

  void last_step_end(record::EpochRecord&) override {
    usage_ = processors_.interval();
    const double energy_before = reading_.energy_joules;
    reading_ = device_.read_sensors();
    reading_.energy_joules -= energy_before;
    host_joules_ = host_energy() - host_joules_;
    peak_bytes_ = static_cast<double>(memory_.interval());
  }

  void epoch_end(record::EpochRecord& epoch) override {
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

  void run_end(RunSummary& summary) override { summary.peak_memory_bytes = memory_.total(); }

 private:
  double host_energy() {
    return telemetry_ != nullptr ? telemetry_->host_energy_joules()
                                 : backend::SensorReading::unknown;
  }

  const backend::Device& device_;
  comm::Communicator& world_;
  Telemetry* telemetry_;  ///< may be null
  core::PeakMemory memory_;
  core::ProcessorMeter processors_;
  /// Before `last_step_end`, the energies are those of the meters at the begin.
  backend::SensorReading reading_;
  double host_joules_ = 0;
  double peak_bytes_ = 0;
  core::ProcessorUsage usage_;
};

/// Measures, at the begin and the end of each epoch, the offset of the clock of every rank's
/// timeline to the clock of rank 0's host, so that times of different ranks can be compared.
class RankClocks final : public TrainingListener {
 public:
  RankClocks(comm::Communicator& communicator, core::Timeline& timeline)
      : communicator_(communicator), timeline_(timeline) {}

  void epoch_begin() override { measure(0); }
  void last_step_end(record::EpochRecord&) override { measure(1); }

  void epoch_end(record::EpochRecord& epoch) override {
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
class PipelineTimes final : public TrainingListener {
 public:
  /// `plan`: of a training with a pipeline, which is always a `PipelinePlan`.
  PipelineTimes(backend::Plan& plan, comm::Communicator& world)
      : plan_(static_cast<PipelinePlan&>(plan)), world_(world) {}

  void epoch_begin() override { plan_.reset_seconds(); }
  void epoch_end(record::EpochRecord& epoch) override {
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

// The order matters for the begin of an epoch, which is the reverse order of the end of its steps:
// what takes long or communicates is first, so that it is outside of what the others measure, and
// the readings that must be closest to the steps are last.
void add_instruments(EventList& events, const TrainingContext& context, Replica& replica,
                     std::int64_t steps, RunDescription& description) {
  Telemetry* telemetry = nullptr;
  if (context.config.telemetry_hertz > 0) {
    auto sampled = std::make_unique<Telemetry>(context.backend.device(), context.world,
                                               context.config.telemetry_hertz);
    telemetry = sampled.get();
    description.telemetry_interfaces = telemetry->interfaces();
    description.host_energy_source = telemetry->host_energy_source();
    events.add(std::move(sampled));
  }
  const std::size_t buckets = description.bucket_sizes.size();
  if (buckets > 0)
    events.add(std::make_unique<RankClocks>(context.world, replica.plan->timeline()));
  if (context.pipeline != nullptr)
    events.add(std::make_unique<PipelineTimes>(*replica.plan, context.world));
  const bool is_independent = context.config.reducer.kind == comm::ReducerKind::none;
  events.add(std::make_unique<StepLog>(context.world, static_cast<std::size_t>(steps), buckets,
                                       is_independent ? &context.data_parallel : nullptr));
  events.add(std::make_unique<EpochReadings>(context, telemetry));
}

}  // namespace lockstep::train
