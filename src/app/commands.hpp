#pragma once

#include <string>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::app {

/// What every command is given.
struct Invocation {
  train::Config config;  ///< as parsed, not yet resolved
  std::string command_line;
  comm::Communicator& communicator;
};

// One function per command, each in a file of its own. All are collective.
core::ExitStatus train_command(const Invocation& invocation);
core::ExitStatus evaluate_command(const Invocation& invocation);
core::ExitStatus ladder_command(const Invocation& invocation);
core::ExitStatus allreduce_command(const Invocation& invocation);
core::ExitStatus plan_command(const Invocation& invocation);
core::ExitStatus info_command(const Invocation& invocation);

}  // namespace lockstep::app
