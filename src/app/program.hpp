#pragma once

#include <chrono>
#include <string>

#include "lockstep/comm/communicator.hpp"
#include "watchdog.hpp"

namespace lockstep::app {

/// Prints help or version where they are asked for; false where there is work to do.
bool print_information(int argc, char** argv);

/// Runs the command that the arguments name and returns the exit status. A failure is told in one
/// line by one rank: where all ranks know of it each returns its status, otherwise this one ends
/// all. Collective.
int run_program(int argc, char** argv, comm::Communicator& communicator,
                Watchdog& watchdog) noexcept;

/// The limit of the watchdog as far as it is known before MPI has started: that of the options, or
/// the default if they are not valid, which `run_program` reports later.
std::chrono::seconds find_watchdog_limit(int argc, char** argv);

/// Names this process before MPI has started: "rank 3 on node7" if the launcher tells the rank.
std::string describe_process_before_mpi();

}  // namespace lockstep::app
