#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "console.hpp"
#include "job.hpp"

namespace lockstep::app {

/// Command, options, ranks and versions of a job: the start of the object of every command with
/// `--json`. `learning_rate` is null if the command has no global batch that it could depend on.
nlohmann::json describe_job(const Job& job);

/// One object on stdout. Numbers that are not known are null.
void print_json(const nlohmann::json& json);

/// What every command says where `--dry-run` ends it.
core::ExitStatus end_dry_run(const Job& job, Console& console,
                             const comm::Communicator& communicator);

/// "CPU rank", "GPU": what Horovod's last lines count.
std::string device_noun(const train::Config& config);

}  // namespace lockstep::app
