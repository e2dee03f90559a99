// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <string>

#include "launcher.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/thread.hpp"
#include "mpi_check.hpp"
#include "mpi_environment.hpp"

namespace lockstep::comm {

std::optional<int> rank_before_mpi() {
  const auto launch = announced_launch([](const char* name) { return std::getenv(name); });
  return launch ? launch->rank : std::nullopt;
}

std::optional<std::string> launcher_of_process() {
  // MPI_Init adds variables to the environment of a process that no launcher has started; this file
  // contains the initial environment.
  std::map<std::string, std::string> variables;
  std::ifstream file("/proc/self/environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) {
    const auto equals = std::min(entry.find('='), entry.size());
    variables.emplace(entry.substr(0, equals), entry.substr(std::min(equals + 1, entry.size())));
  }
  const auto launch = announced_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  return launch ? std::optional(describe(*launch)) : std::nullopt;
}

MpiSession::MpiSession(int& argc, char**& argv) {
  // Read the variables before MPI_Init_thread, which may set some of them itself.
  const auto launch = announced_launch([](const char* name) { return std::getenv(name); });
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) return;

  // MPI ends the process if it cannot start its threads; without a launcher it also starts a
  // daemon.
  core::require_threads(launch ? 3 : 10);
  if (!launch) require_session_directory([](const char* name) { return std::getenv(name); });
  const MpiEnvironment environment(launch);
  int threads = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &threads), "MPI_Init_thread");
  owns_mpi_ = true;
  try {
    if (threads < MPI_THREAD_FUNNELED) {
      core::fail(
          core::ExitStatus::usage,
          "this MPI library does not allow threads (MPI_THREAD_FUNNELED is refused); use one "
          "that was built with thread support");
    }
    int ranks = 0;
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
    refuse_singletons(launch, ranks);
  } catch (...) {
    MPI_Finalize();  // every rank gets here, or this is the only rank
    throw;
  }
}

MpiSession::~MpiSession() {
  // MPI_Finalize waits for all ranks. If an exception propagates, the other ranks may never call
  // it: without the call, the launcher terminates them.
  if (owns_mpi_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

}  // namespace lockstep::comm
