#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep::comm {

/// Looks up an environment variable as `std::getenv` does: null where it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// What the launcher that started this process says about its job.
struct LaunchPromise {
  std::string variable;  ///< where it says so: "SLURM_STEP_NUM_TASKS"
  int ranks = 0;
};

/// How many ranks the launcher's environment promises; nothing where no launcher started this
/// process itself. A batch script and the shell of an allocation are no launchers: a program
/// started in them without `srun` or `mpirun` is one rank by right, whatever SLURM_NTASKS says.
std::optional<LaunchPromise> promised_ranks(const EnvironmentLookup& lookup);

/// Throws `Error` (usage) where several ranks were promised and MPI sees one: the launcher and MPI
/// did not find each other, and each process would train alone.
void refuse_singletons(const std::optional<LaunchPromise>& promise, int mpi_ranks);

}  // namespace lockstep::comm
