// SPDX-License-Identifier: BSD-3-Clause
#include "rank_clocks.hpp"

#include <vector>

#include "lockstep/comm/messages.hpp"

namespace lockstep::train {

void RankClocks::measure(std::size_t reading) {
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

void RankClocks::add_to(record::EpochRecord& epoch) {
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

}  // namespace lockstep::train
