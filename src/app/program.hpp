#pragma once

#include "lockstep/comm/communicator.hpp"

namespace lockstep::app {

/// Prints help or version where they are asked for; false where there is work to do.
bool print_information(int argc, char** argv);

/// Runs the command that the arguments name and returns the exit status. A failure is told in one
/// line by one rank: where all ranks know of it each returns its status, otherwise this one ends
/// all. Collective.
int run_program(int argc, char** argv, comm::Communicator& communicator) noexcept;

}  // namespace lockstep::app
