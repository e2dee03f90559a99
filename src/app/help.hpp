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

/// Returns the reference of all options in Markdown: one section with a table per group. It is part
/// of docs/options.md.
std::string options_page();

/// Returns the option table as JSON: an array of objects with the members name, group, type, range,
/// values, default, commands, across_ranks, effect, effect_requires and help.
std::string options_json();

}  // namespace lockstep::app
