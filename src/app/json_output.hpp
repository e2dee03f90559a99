// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "console.hpp"
#include "job.hpp"

namespace lockstep::app {

/// Returns command, options, ranks and versions of a job: the first entries of the object that
/// every command prints with `--json`. `learning_rate` is null if the command has no global batch,
/// on which it could depend.
nlohmann::json describe_job(const Job& job);

/// Returns the results of a training on `ranks` ranks.
nlohmann::json to_json(const train::RunSummary& summary, int ranks);

/// Prints one object to stdout, also on a silent console. Unknown numbers are null.
void print_json(Console& console, const nlohmann::json& json);

/// Prints the output of a command that ends because of `--dry-run`; returns `done`.
core::ExitStatus end_dry_run(const Job& job, Console& console,
                             const comm::Communicator& communicator);

/// Returns the noun for devices in the final summary: "CPU rank" or "GPU".
std::string device_noun(const train::Config& config);

}  // namespace lockstep::app
