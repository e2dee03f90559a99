// SPDX-License-Identifier: BSD-3-Clause
#include "launcher.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

constexpr std::string_view use_own_mpirun =
    "start with the mpirun of the MPI library this program was built with";
constexpr std::string_view use_mpi =
    "start the ranks with mpirun or srun instead; if no launcher started this process, unset the "
    "variable";
constexpr std::string_view use_pmix =
    "start with `srun --mpi=pmix` (`srun --mpi=list` shows what there is), or with mpirun inside "
    "the job";

/// The variables of a launcher. `ranks` is null if it announces only the rank.
struct Variables {
  std::string_view launcher;
  const char *ranks, *rank;
  std::string_view remedy = use_own_mpirun;
};

// The variables of mpirun come first, because mpirun may itself run in a job step of another
// launcher; then those that are common to several launchers.
constexpr std::array<Variables, 15> launchers{{
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpirun of MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
    {"mpirun of MVAPICH", "MVP_COMM_WORLD_SIZE", "MVP_COMM_WORLD_RANK"},
    {"horovodrun", "HOROVOD_SIZE", "HOROVOD_RANK", use_mpi},
    {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK",
     "start with `flux run -o pmi=pmix` if this Flux has PMIx, or with the mpirun of the MPI "
     "library this program was built with"},
    {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
    {"mpiexec of PALS", "PALS_SIZE", "PALS_RANKID"},
    {"mpiexec with PMI (MPICH, Intel MPI)", "PMI_SIZE", "PMI_RANK"},
    {"torchrun or another launcher of PyTorch", "WORLD_SIZE", "RANK", use_mpi},
    {"a launcher of JAX", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", use_mpi},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", use_pmix},
    {"srun", "SLURM_NTASKS", "SLURM_PROCID", use_pmix},
    {"aprun", nullptr, "ALPS_APP_PE"},
    {"mpiexec of PALS", nullptr, "PALS_RANKID"},
    {"a launcher with PMIx", nullptr, "PMIX_RANK"},
}};

std::optional<int> number(const EnvironmentLookup& lookup, const char* name) {
  const char* text = name == nullptr ? nullptr : lookup(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Slurm numbers the job steps of `srun` from 0. The batch script, the shell of an allocation and
// other special steps have ids that do not fit in an int, or none.
bool is_srun_step(const EnvironmentLookup& lookup) {
  const bool is_terminal = lookup("SLURM_PTY_PORT") != nullptr;  // `srun --pty bash`
  return number(lookup, "SLURM_STEP_ID").value_or(-1) >= 0 && !is_terminal;
}

}  // namespace

std::optional<Launch> announced_launch(const EnvironmentLookup& lookup) {
  for (const Variables& variables : launchers) {
    const auto ranks = number(lookup, variables.ranks), rank = number(lookup, variables.rank);
    // The shell of an interactive job step has rank 0.
    if (variables.ranks == nullptr ? rank.value_or(0) <= 0 : !ranks) continue;
    if (variables.launcher == "srun" && (!rank || !is_srun_step(lookup))) continue;
    // This name may have another meaning, or be left over in a shell.
    const bool is_common_name = ranks && std::string_view(variables.ranks) == "WORLD_SIZE";
    if (is_common_name && (!rank || *ranks <= 1)) continue;
    return Launch{variables.launcher, variables.remedy, ranks ? variables.ranks : variables.rank,
                  ranks, rank};
  }
  return std::nullopt;
}

std::string describe(const Launch& launch) {
  return fmt::format("{} ({}={})", launch.launcher, launch.variable,
                     launch.ranks.value_or(launch.rank.value_or(0)));
}

void refuse_singletons(const std::optional<Launch>& launch, int mpi_ranks) {
  if (!launch || mpi_ranks > 1 || launch->ranks.value_or(2) <= 1) return;
  const std::string started = launch->ranks ? fmt::format("{} ranks were", *launch->ranks)
                                            : fmt::format("rank {} was", launch->rank.value_or(0));
  core::fail(
      core::ExitStatus::usage,
      fmt::format("{} started by {}, but MPI sees only this one (launcher and MPI library do "
                  "not work together); {}",
                  started, describe(*launch), launch->remedy));
}

}  // namespace lockstep::comm
