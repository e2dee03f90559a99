// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "options.hpp"

namespace lockstep::app {

/// Environment variables as "NAME=VALUE".
using Environment = std::vector<std::string>;
Environment process_environment();

/// Returns the options, not yet resolved. Sources in order of precedence: the command line,
/// LOCKSTEP_* environment variables (LOCKSTEP_BATCH_PER_RANK), the file that --config names,
/// defaults. Throws `Error` (usage) for an unknown command or option, or an invalid value.
Options parse_options(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace lockstep::app
