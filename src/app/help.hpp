// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::app {

/// Returns the text that the arguments request (`--help`, `--help-all`, `--version`, `help`, or no
/// arguments); nothing if there is a command to run. `arguments`: without the name of the program.
/// Throws `Error` (usage) if `help experiment` is followed by an invalid command line.
std::optional<std::string> requested_information(const std::vector<std::string>& arguments);

/// Returns a summary of the program and its commands.
std::string overview_text();

/// The options in the help of a command: those that most users need (`is_common`), or all that it
/// uses.
enum class HelpDetail { common, all };

/// Returns the help of a command: description, examples, and its options in groups.
std::string help_text(std::string_view command, HelpDetail detail);

}  // namespace lockstep::app
