// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::app {

/// Properties of a command that determine how it ends if a signal stops it before it has anything
/// to save.
struct StoppedCommand {
  bool is_training = false;
  bool saves_checkpoints = false;
};

/// Returns the error with which a signal ends a command that has nothing to save, such as a
/// training before its first step. `activity`: what the program was doing; may be empty.
core::Error early_stop(StoppedCommand command, int signal, std::string_view activity = {});

/// Throws this error, of rank 0, as `AgreedError` if a rank has received a signal. Collective: all
/// ranks must call this.
void end_if_signalled(StoppedCommand command, comm::Communicator& communicator);

}  // namespace lockstep::app
