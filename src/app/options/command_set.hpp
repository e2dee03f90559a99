// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::app {

/// A set of commands as a bit mask.
enum CommandSet : unsigned {
  cmd_train = 1,
  cmd_evaluate = 2,
  cmd_ladder = 4,
  cmd_allreduce = 8,
  cmd_plan = 16,
  cmd_info = 32,
  cmd_layers = 64,
  cmd_stack = 128,
  cmd_all = 255,
  cmd_run = cmd_train | cmd_plan,  ///< `plan` describes a run, so it has all options of `train`
  cmd_training = cmd_run | cmd_ladder,
  cmd_layer = cmd_layers | cmd_stack,  ///< measurements of layers, without images
};

/// Returns the names of all commands.
std::vector<std::string> command_names();
/// Returns the command with this name as a set; 0 if there is none.
unsigned commands_named(std::string_view name);
/// Returns the name of a set of one command.
std::string_view name(CommandSet command);

}  // namespace lockstep::app
