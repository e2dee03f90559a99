// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

namespace lockstep::comm {

/// Returns the rank of this process that the launcher announces in the environment, before MPI is
/// initialised; empty if no launcher (mpirun, srun) has started this process.
std::optional<int> rank_before_mpi();

/// Returns the launcher that has started this process, with the variable that announces it, for
/// example "mpirun of Open MPI (OMPI_COMM_WORLD_SIZE=2)"; empty if no launcher has.
std::optional<std::string> launcher_of_process();

/// Returns whether the launcher of this process kills the ranks within two seconds after it has
/// received SIGTERM or SIGINT, so that they cannot save a checkpoint. mpirun of Open MPI does,
/// unless the user has set a longer time, which only version 4 permits.
bool launcher_kills_ranks();

/// Initialises MPI in the constructor and finalises it in the destructor. Must be constructed
/// before every communicator and destroyed after all of them. If MPI is already initialised, the
/// session uses it and does not finalise it. If the session is destroyed because of an exception,
/// it does not call MPI_Finalize, which would wait for the other ranks; the launcher then
/// terminates them.
class MpiSession {
 public:
  /// Throws `AgreedError` (usage) if the environment of the launcher announces several ranks but
  /// MPI has only one (`srun` without PMI starts N singletons), and `Error` (usage) if the MPI
  /// library does not provide MPI_THREAD_FUNNELED. Neither is checked if MPI is already
  /// initialised.
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  bool owns_mpi_ = false;
};

}  // namespace lockstep::comm
