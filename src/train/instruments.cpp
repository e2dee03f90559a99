// SPDX-License-Identifier: BSD-3-Clause
#include "instruments.hpp"

#include <ranges>

#include "pipeline/pipeline_report.hpp"
#include "timing/rank_clocks.hpp"

namespace lockstep::train {

Instruments::Instruments(const TrainingContext& context, Replica& replica, std::int64_t steps,
                         std::size_t buckets, Instrument& saver)
    : world_(context.world),
      readings_(context.backend.device(), context.world, telemetry_),
      log_(context.world, static_cast<std::size_t>(steps), buckets) {
  if (context.config.telemetry_hertz > 0) {
    telemetry_.emplace(context.backend.device(), context.world, context.config.telemetry_hertz);
    all_.push_back(&*telemetry_);
  }
  const auto own = [&](std::unique_ptr<Instrument> instrument) {
    all_.push_back(owned_.emplace_back(std::move(instrument)).get());
  };
  if (buckets > 0) own(std::make_unique<RankClocks>(context.world, replica.plan->timeline()));
  if (context.pipeline != nullptr)
    own(std::make_unique<PipelineReport>(*replica.plan, context.world));
  all_.insert(all_.end(), {&saver, &log_, &readings_});
}

void Instruments::begin(double origin) {
  if (telemetry_) telemetry_->begin(origin);
}

void Instruments::end() {
  if (telemetry_) telemetry_->end();
}

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
