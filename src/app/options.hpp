#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/config.hpp"

namespace lockstep::app {

/// "NAME=VALUE" for each variable of the environment.
using Environment = std::vector<std::string>;
Environment process_environment();

/// The text that was asked for with `--help`, `--version` or no command at all; nothing where there
/// is work to do. `arguments`: without the program's name.
std::optional<std::string> information_asked_for(const std::vector<std::string>& arguments);

/// The configuration: the command line first, then LOCKSTEP_* variables (LOCKSTEP_BATCH_PER_RANK),
/// then the file that --config names, then defaults. Throws `Error` (usage) for a command, option
/// or value there is not. Not yet resolved.
train::Config parse_options(const std::vector<std::string>& arguments,
                            const Environment& environment);

}  // namespace lockstep::app
