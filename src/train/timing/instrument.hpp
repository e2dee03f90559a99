// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/record/run_file.hpp"

namespace lockstep::train {

/// Measures each epoch of a training in one respect. All ranks have the same instruments and call
/// their functions in the same order, so the functions may be collective.
class Instrument {
 public:
  virtual ~Instrument() = default;
  Instrument() = default;
  Instrument(const Instrument&) = delete;
  Instrument& operator=(const Instrument&) = delete;

  /// Called before the first step of an epoch; no step is in flight.
  virtual void begin_epoch() {}
  /// Called after the last step of an epoch; no step is in flight.
  virtual void end_epoch() {}
  /// Adds the measurements of the last epoch to `epoch`, which is complete on rank 0.
  virtual void add_to(record::EpochRecord& epoch) = 0;
};

}  // namespace lockstep::train
