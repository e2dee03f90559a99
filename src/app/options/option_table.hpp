// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/train/agreement.hpp"
#include "option.hpp"
#include "options.hpp"

namespace lockstep::app {

/// Returns the option table, ordered by group.
std::span<const Option> options();

/// Returns the option `name`; null if there is none.
const Option* find_option(std::string_view name);

/// Returns whether `command` uses `option`.
bool is_used(std::string_view command, const Option& option);

/// Returns whether `command` uses `option` and its `--help` shows it.
bool is_common(std::string_view command, const Option& option);

/// Returns the names of the options that `command` uses.
std::vector<std::string> option_names(std::string_view command);
/// Returns the names of all options.
std::vector<std::string> option_names();

/// Returns the command and the name and value of every recorded option, in the notation of the
/// command line.
train::Entries entries(const Options& values);

/// Returns the entries that must be equal on all ranks.
train::Entries shared_entries(const Options& values);

/// Returns the build of this program (`program_id`) and the entries of the options that the command
/// uses and that have an effect (`Effect`): two runs are of one experiment if these entries are
/// equal.
train::Entries experiment_entries(const Options& values);

}  // namespace lockstep::app
