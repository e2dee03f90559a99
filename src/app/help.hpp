// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::app {

/// Returns the text that the arguments request (`--help`, `--help-all`, `--version`, `help`, or no
/// arguments); nothing if there is a command to run. `arguments`: without the name of the program.
/// Throws `Error` (usage) if `help experiment` is followed by an invalid command line.
std::optional<std::string> requested_information(const std::vector<std::string>& arguments);

}  // namespace lockstep::app
