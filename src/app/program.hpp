// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/train/config.hpp"
#include "standard_output.hpp"

namespace lockstep::app {

/// Prints help or version if requested; returns false if there is a command to run.
bool print_information(const std::vector<std::string>& arguments, StandardOutput& output);

/// The options of this process.
struct ProgramOptions {
  std::string command_line;
  train::Config config;              ///< the defaults if there is an error
  std::optional<core::Error> error;  ///< `run_program` reports it, once for all ranks
};

/// Reads the options from the arguments after the name of the program, the environment and files.
ProgramOptions read_options(const char* program, const std::vector<std::string>& arguments);

/// Runs the command of the options and returns the exit status. After a failure one rank prints a
/// message of one line. If all ranks know of the failure, each returns its status; otherwise the
/// rank that failed aborts all ranks. Collective: all ranks must call this.
int run_program(const ProgramOptions& options, comm::Communicator& communicator,
                StandardOutput& output, core::ProgressMonitor& progress,
                const BackendFactory& make_backend) noexcept;

/// Returns a name of this process before MPI is initialised: "rank 3 on node7" if the launcher sets
/// the rank in the environment.
std::string describe_process_before_mpi();

}  // namespace lockstep::app
