// SPDX-License-Identifier: BSD-3-Clause
#include "early_stop.hpp"

#include <fmt/format.h>

#include <string>

#include "lockstep/train/agreement.hpp"

namespace lockstep::app {

core::Error early_stop(StoppedCommand command, int signal, std::string_view activity) {
  std::string text = fmt::format("stopped by signal {}", signal);
  if (!activity.empty()) text += fmt::format(" during '{}'", activity);
  if (command.is_training)
    text += activity.empty() ? " before the first step" : ", before the first step";
  // Nothing is lost, so the same command continues where this one would have begun.
  if (command.is_training && command.saves_checkpoints) {
    return {core::ExitStatus::interrupted, text + "; nothing is lost: run the same command again"};
  }
  return {core::stopped_by(signal), text};
}

void end_if_signalled(StoppedCommand command, comm::Communicator& communicator) {
  const int signal = train::agreed_signal(communicator);
  if (signal == 0) return;
  train::together(communicator, [&] {
    if (communicator.rank() == 0) throw early_stop(command, signal);
  });
}

}  // namespace lockstep::app
