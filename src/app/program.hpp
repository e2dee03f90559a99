#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/train/config.hpp"
#include "standard_output.hpp"

namespace lockstep::app {

/// Prints help or version if requested; returns false if there is a command to run.
bool print_information(int argc, char** argv, StandardOutput& output);

/// Runs the command that the arguments name and returns the exit status. After a failure one rank
/// prints a message of one line. If all ranks know of the failure, each returns its status;
/// otherwise the rank that failed aborts all ranks. Collective: all ranks must call this.
int run_program(int argc, char** argv, comm::Communicator& communicator, StandardOutput& output,
                core::ProgressMonitor& progress) noexcept;

/// Returns the options before MPI is initialised; the defaults if they are invalid, which
/// `run_program` reports later.
train::Config find_early_config(int argc, char** argv);

/// Returns a name of this process before MPI is initialised: "rank 3 on node7" if the launcher sets
/// the rank in the environment.
std::string describe_process_before_mpi();

}  // namespace lockstep::app
