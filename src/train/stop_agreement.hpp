// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <optional>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

/// What all ranks know of the signals that stop a run. While it exists, a signal does not end the
/// process: its owner stops the run. All functions are collective except `request` and
/// `is_stopping`.
class StopAgreement {
 public:
  /// `grace_seconds`: between the arrival of a signal and the end of the process by its sender.
  StopAgreement(comm::Communicator& world, double grace_seconds)
      : world_(world), grace_seconds_(grace_seconds) {}

  /// Stops the run. All ranks call this after the same step, because they know that one of them has
  /// received a signal.
  void request() { is_stopping_ = true; }
  bool is_stopping() const { return is_stopping_; }
  /// Stops the run if a rank has received a signal. Returns `is_stopping`.
  bool agree_to_stop() { return is_stopping_ = is_stopping_ || agreed_signal() != 0; }

  /// Returns the number of a signal that a rank has received; 0 if none has.
  int agreed_signal() const { return train::agreed_signal(world_); }

  /// Returns the time from the first signal to the end of work that begins now and takes `seconds`
  /// (the longest time of a rank counts), if it exceeds the grace time; nothing if it does not, or
  /// if no rank has received a signal.
  std::optional<double> agreed_excess(double seconds) const {
    std::array values{core::StopSignal::seconds(), seconds};
    world_.maximum(values);
    const double end = values[0] + values[1];
    return values[0] == 0 || end <= grace_seconds_ ? std::nullopt : std::optional(end);
  }

 private:
  comm::Communicator& world_;
  double grace_seconds_;
  bool is_stopping_ = false;
  core::StopSignal signals_;
};

}  // namespace lockstep::train
