// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

/// Looks up an environment variable like `std::getenv`; returns null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// Looks up the variables with which this process was started: MPI_Init adds some to the
/// environment of a process that no launcher has started.
EnvironmentLookup initial_lookup();

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

/// Returns whether the launcher kills the ranks within two seconds after SIGTERM. The launcher
/// decides, not the MPI library: the ranks may use that of another version.
bool kills_ranks(const EnvironmentLookup& lookup);

/// Throws `AgreedError` (usage) if the launcher started several ranks and MPI has only one:
/// launcher and MPI library do not work together, and each process would train alone as a
/// singleton. Rank 0 reports the error.
void refuse_singletons(const std::optional<Launch>& launch, int mpi_ranks);

/// Returns whether this process is in a job step of Slurm that has no PMIx server: `srun` without
/// `--mpi=pmix`, and without mpirun, which has its own server.
bool is_step_without_pmix(const EnvironmentLookup& lookup);

/// Which namespaces separate this process from its launcher, for example because the launcher
/// starts each rank in a container of its own.
struct Separation {
  bool by_process_ids = false;  ///< PID namespace
  bool by_users = false;        ///< user namespace
};

/// Returns the separation from the launcher, which is the first ancestor without the variable that
/// announces the launch. `root`: directory that contains `proc`; `parent`: the parent process, 0 if
/// it is in another namespace. Tests replace both.
Separation separation_from(const Launch& launch, int parent,
                           const std::filesystem::path& root = "/");

/// Returns whether the system permits a process to read the memory of its own descendants only,
/// unless another process allows it (security module Yama; the default of Ubuntu).
bool restricts_ptrace(const std::filesystem::path& root = "/");

}  // namespace lockstep::comm
