#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "option_table.hpp"

namespace lockstep::app {

std::vector<std::string> command_names();
bool is_command(std::string_view name);

/// Returns a summary of the program and its commands.
std::string overview_text();

/// Returns the help of a command: description, examples, and its options in groups.
std::string help_text(std::string_view command, const OptionTable& table);

std::string version_text();

}  // namespace lockstep::app
