// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "guard/early_stop.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/progress.hpp"
#include "options/command_set.hpp"
#include "options/options.hpp"
#include "standard_output.hpp"

namespace lockstep::app {

using BackendFactory =
    std::function<std::unique_ptr<backend::Backend>(const backend::DeviceOptions& options)>;

/// Arguments of every command.
struct Invocation {
  Options options;         ///< as parsed, not yet resolved
  StoppedCommand stopped;  ///< how a signal ends the command before it has anything to save
  std::string command_line;
  comm::Communicator& communicator;
  StandardOutput& output;
  core::ProgressMonitor* monitor;  ///< notified of this rank's progress
  BackendFactory make_backend;
};

// One function per command, each in its own file. Collective: all ranks must call them.
core::ExitStatus train_command(const Invocation& invocation);
core::ExitStatus evaluate_command(const Invocation& invocation);
core::ExitStatus ladder_command(const Invocation& invocation);
core::ExitStatus allreduce_command(const Invocation& invocation);
core::ExitStatus plan_command(const Invocation& invocation);
core::ExitStatus layers_command(const Invocation& invocation);
core::ExitStatus stack_command(const Invocation& invocation);
core::ExitStatus info_command(const Invocation& invocation);

/// A command of the program.
struct Command {
  CommandSet bit;
  core::ExitStatus (*run)(const Invocation& invocation);
  std::string_view summary;  ///< for the help, like `details`
  std::string_view details;  ///< begins and ends with the end of a line

  std::string_view name() const { return app::name(bit); }
};

/// Returns all commands.
std::span<const Command> commands();
/// Returns the command `name`, which must exist.
const Command& find_command(std::string_view name);

}  // namespace lockstep::app
