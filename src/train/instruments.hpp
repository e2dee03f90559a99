// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/train/trainer.hpp"
#include "replica.hpp"
#include "timing/instrument.hpp"
#include "timing/step_log.hpp"
#include "timing/telemetry.hpp"

namespace lockstep::train {

/// The instruments of a training.
class Instruments {
 public:
  /// `steps`, `buckets`: size of the log of an epoch; without buckets, the clocks of the ranks are
  /// not compared. `saver`: the time for which checkpoints stop the training is recorded. All
  /// arguments must outlive this object. Collective: all ranks must call this.
  Instruments(const TrainingContext& context, Replica& replica, std::int64_t steps,
              std::size_t buckets, Instrument& saver);

  /// Starts the telemetry. `origin`: origin of its clock.
  void begin(double origin) {
    if (telemetry_) telemetry_->begin(origin);
  }
  void end() {
    if (telemetry_) telemetry_->end();
  }

  /// Like the functions of `Instrument`. All ranks return from `begin_epoch` at the same time.
  void begin_epoch();
  void end_epoch();
  void add_to(record::EpochRecord& epoch);

  StepLog& log() { return log_; }
  /// Returns the peak resident memory of this process in bytes, over all epochs.
  std::uint64_t peak_bytes() const;
  /// Sets the interfaces and the source of the energy of the host.
  void describe(RunDescription& description) const;

 private:
  class EpochReadings;

  comm::Communicator& world_;
  std::optional<Telemetry> telemetry_;
  StepLog log_;
  std::vector<std::unique_ptr<Instrument>> owned_;
  EpochReadings* readings_ = nullptr;  ///< in `owned_`
  std::vector<Instrument*> all_;       ///< in the order of `begin_epoch`; `end_epoch` reverses it
};

}  // namespace lockstep::train
