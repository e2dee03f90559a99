#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep::comm {

/// Looks up an environment variable like `std::getenv`; returns null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// The number of ranks that the launcher of this process announces in the environment.
struct AnnouncedRanks {
  std::string variable;  ///< environment variable that contains the number, for example
                         ///< "SLURM_STEP_NUM_TASKS"
  int ranks = 0;
};

/// Returns the number of ranks that the launcher announces in the environment; empty if this
/// process was not started by a launcher. A batch script and the shell of an allocation are not
/// launchers: a program started in them without `srun` or `mpirun` is correctly a single rank,
/// whatever the value of SLURM_NTASKS.
std::optional<AnnouncedRanks> announced_ranks(const EnvironmentLookup& lookup);

/// Returns the rank that the launcher announces; empty if this process was not started by a
/// launcher.
std::optional<int> announced_rank(const EnvironmentLookup& lookup);

/// Throws `Error` (usage) if the launcher announced several ranks and MPI has only one: launcher
/// and MPI library do not work together, and each process would train alone as a singleton.
void refuse_singletons(const std::optional<AnnouncedRanks>& announced, int mpi_ranks);

}  // namespace lockstep::comm
