// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

#include "instrument.hpp"
#include "lockstep/comm/clock_offset.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/record/run_file.hpp"

namespace lockstep::train {

/// Measures, at the begin and the end of each epoch, the offset of the clock of every rank's
/// timeline to the clock of rank 0's host, so that times of different ranks can be compared.
class RankClocks final : public Instrument {
 public:
  /// Both must outlive this object.
  RankClocks(comm::Communicator& communicator, core::Timeline& timeline)
      : communicator_(communicator), timeline_(timeline) {}

  /// Sets the clock of the timeline to that of the host, and measures. No step may be in flight.
  /// Collective: all ranks must call this.
  void begin_epoch() override { measure(0); }
  /// Measures again. No step may be in flight. Collective: all ranks must call this.
  void end_epoch() override { measure(1); }
  /// Adds the measurements of the last epoch to `epoch` on rank 0.
  void add_to(record::EpochRecord& epoch) override;

 private:
  static constexpr std::size_t readings = record::clock_reading_names.size();

  void measure(std::size_t reading);

  comm::Communicator& communicator_;
  core::Timeline& timeline_;
  std::array<std::vector<comm::ClockOffset>, readings> offsets_;  ///< (reading), (rank) on rank 0
};

}  // namespace lockstep::train
