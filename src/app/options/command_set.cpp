// SPDX-License-Identifier: BSD-3-Clause
#include "command_set.hpp"

#include <algorithm>
#include <array>

#include "lockstep/core/error.hpp"

namespace lockstep::app {

namespace {

struct CommandName {
  CommandSet command;
  std::string_view name;
};
/// In the order of the help.
constexpr std::array<CommandName, 8> command_table{{
    {cmd_train, "train"},
    {cmd_evaluate, "evaluate"},
    {cmd_ladder, "ladder"},
    {cmd_allreduce, "allreduce"},
    {cmd_plan, "plan"},
    {cmd_layers, "layers"},
    {cmd_stack, "stack"},
    {cmd_info, "info"},
}};

}  // namespace

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandName& command : command_table) names.emplace_back(command.name);
  return names;
}

unsigned commands_named(std::string_view name) {
  const auto found = std::ranges::find(command_table, name, &CommandName::name);
  return found == command_table.end() ? 0U : static_cast<unsigned>(found->command);
}

std::string_view name(CommandSet command) {
  const auto found = std::ranges::find(command_table, command, &CommandName::command);
  core::check(found != command_table.end(), "every command has a name");
  return found->name;
}

}  // namespace lockstep::app
