// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace lockstep::app {

/// Returns the reference of all options in Markdown: one section with a table per group. It is part
/// of docs/options.md.
std::string options_page();

/// Returns the option table as JSON: an array of objects with the members name, group, type, range,
/// values, default, commands, across_ranks, effect, effect_requires and help.
std::string options_json();

}  // namespace lockstep::app
