// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string_view>

#include "invocation.hpp"
#include "lockstep/core/error.hpp"
#include "options/command_set.hpp"

namespace lockstep::app {

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
