// SPDX-License-Identifier: BSD-3-Clause
#include "launcher.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <system_error>
#include <vector>

#include "lockstep/comm/agreed_error.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view use_own_mpirun =
    "start with the mpirun of the MPI library this program was built with";
constexpr std::string_view use_mpi =
    "start the ranks with mpirun or srun instead; if no launcher started this process, unset the "
    "variable";
constexpr std::string_view use_pmi =
#ifdef OPEN_MPI
    "start with `srun --mpi=pmix` (`srun --mpi=list` shows what there is), or with mpirun inside "
    "the job";
#else  // MPICH and libraries that derive from it
    "start with `srun --mpi=pmi2` (`srun --mpi=list` shows what there is), or with mpirun inside "
    "the job";
#endif

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
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", use_pmi},
    {"srun", "SLURM_NTASKS", "SLURM_PROCID", use_pmi},
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

/// Returns whether `srun --mpi=pmi2` has set the variables PMI_*; mpiexec sets no PMI_JOBID.
bool is_pmi_of_slurm(const EnvironmentLookup& lookup) {
  return lookup("PMI_JOBID") != nullptr && is_srun_step(lookup);
}

/// Returns the environment with which a process was started, as NAME=VALUE; empty if it cannot be
/// read.
std::vector<std::string> initial_environment(const fs::path& process) {
  std::vector<std::string> entries;
  std::ifstream file(process / "environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) entries.push_back(entry);
  return entries;
}

/// Returns the parent of a process; 0 if it is unknown or in another PID namespace.
int parent_of(const fs::path& process) {
  std::ifstream file(process / "status");
  for (std::string word; file >> word;) {
    int parent = 0;
    if (word == "PPid:" && file >> parent) return parent;
  }
  return 0;
}

/// Returns whether all users of the host have their own numbers in the namespace of this process,
/// as in the initial user namespace.
bool has_all_users(const fs::path& root) {
  std::ifstream file(root / "proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  return !(file >> inside >> outside >> count) || (outside == 0 && count == UINT32_MAX);
}

fs::path user_namespace(const fs::path& process) {
  std::error_code failed;
  return fs::read_symlink(process / "ns/user", failed);
}

}  // namespace

EnvironmentLookup initial_lookup() {
  return [entries = initial_environment("/proc/self")](const std::string& name) -> const char* {
    for (const std::string& entry : entries)
      if (entry.starts_with(name + '=')) return entry.c_str() + name.size() + 1;
    return nullptr;
  };
}

std::optional<Launch> announced_launch(const EnvironmentLookup& lookup) {
  for (const Variables& variables : launchers) {
    const auto ranks = number(lookup, variables.ranks), rank = number(lookup, variables.rank);
    // The shell of an interactive job step has rank 0.
    if (variables.ranks == nullptr ? rank.value_or(0) <= 0 : !ranks) continue;
    if (variables.launcher == "srun" && (!rank || !is_srun_step(lookup))) continue;
    if (ranks && std::string_view(variables.ranks) == "PMI_SIZE" && is_pmi_of_slurm(lookup))
      continue;
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

bool kills_ranks(const EnvironmentLookup& lookup) {
  if (lookup("OMPI_COMM_WORLD_SIZE") == nullptr) return false;
  const bool is_version_4 = lookup("OMPI_MCA_orte_launch") != nullptr;
  const int seconds = number(lookup, "OMPI_MCA_odls_base_sigkill_timeout").value_or(1);
  return !is_version_4 || seconds <= 1;
}

void refuse_singletons(const std::optional<Launch>& launch, int mpi_ranks) {
  if (!launch || mpi_ranks > 1 || launch->ranks.value_or(2) <= 1) return;
  const std::string started = launch->ranks ? fmt::format("{} ranks were", *launch->ranks)
                                            : fmt::format("rank {} was", launch->rank.value_or(0));
  const int rank = launch->rank.value_or(0);
  const int reporter = launch->ranks ? 0 : rank;  // rank 0 does not fail if it announces no ranks
  throw AgreedError(
      core::ExitStatus::usage,
      fmt::format("{} started by {}, but MPI sees only this one (launcher and MPI library do "
                  "not work together); {}",
                  started, describe(*launch), launch->remedy),
      reporter, rank);
}

bool is_step_without_pmix(const EnvironmentLookup& lookup) {
  return lookup("SLURM_STEP_ID") != nullptr && lookup("PMIX_NAMESPACE") == nullptr;
}

Separation separation_from(const Launch& launch, int parent, const fs::path& root) {
  const bool has_own_users = !has_all_users(root);
  for (int process = parent; process > 0;) {
    const fs::path folder = root / "proc" / fmt::format("{}", process);
    const bool is_launched = std::ranges::any_of(
        initial_environment(folder),
        [&](const std::string& entry) { return entry.starts_with(launch.variable + '='); });
    if (!is_launched) {
      const fs::path users = user_namespace(folder);
      return {false,
              has_own_users && (users.empty() || users != user_namespace(root / "proc/self"))};
    }
    process = parent_of(folder);
  }
  return {true, has_own_users};
}

bool restricts_ptrace(const fs::path& root) {
  std::ifstream file(root / "proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return file >> scope && scope > 0;
}

}  // namespace lockstep::comm
