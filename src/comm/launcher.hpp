// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

/// Looks up an environment variable like `std::getenv`; returns null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// What the launcher of this process announces in the environment.
struct Launch {
  std::string_view launcher;  ///< for example "srun"
  std::string_view remedy;    ///< how to start ranks instead
  std::string variable;       ///< the variable of `ranks`, or of `rank` if `ranks` is unknown
  std::optional<int> ranks;   ///< number of ranks
  std::optional<int> rank;    ///< rank of this process
};

/// Returns what the launcher announces in the environment; empty if this process was not started by
/// a launcher. A batch script and the shell of an allocation are not launchers: a program started
/// in them without `srun` or `mpirun` is correctly a single rank, whatever the value of
/// SLURM_NTASKS. Nor is a shell with WORLD_SIZE but without RANK.
std::optional<Launch> announced_launch(const EnvironmentLookup& lookup);

/// Returns the launcher and the variable that announces it: "srun (SLURM_STEP_NUM_TASKS=2)".
std::string describe(const Launch& launch);

/// Throws `Error` (usage) if the launcher started several ranks and MPI has only one: launcher and
/// MPI library do not work together, and each process would train alone as a singleton.
void refuse_singletons(const std::optional<Launch>& launch, int mpi_ranks);

}  // namespace lockstep::comm
