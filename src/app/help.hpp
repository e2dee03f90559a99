#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::app {

/// Returns the text that the arguments request (`--help`, `--version`, `help`, or no arguments);
/// nothing if there is a command to run. `arguments`: without the name of the program. Throws
/// `Error` (usage) if `help experiment` is followed by an invalid command line.
std::optional<std::string> requested_information(const std::vector<std::string>& arguments);

/// Returns a summary of the program and its commands.
std::string overview_text();

/// Returns the help of a command: description, examples, and its options in groups.
std::string help_text(std::string_view command);

}  // namespace lockstep::app
