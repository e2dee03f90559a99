// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <mpi.h>
#include <pwd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "launcher.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/thread.hpp"
#include "mpi_check.hpp"
#include "mpi_library.hpp"

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

/// Looks up the variables with which this process was started: MPI_Init adds some to the
/// environment of a process that no launcher has started.
EnvironmentLookup initial_lookup() {
  return [entries = initial_environment("/proc/self")](const std::string& name) -> const char* {
    for (const std::string& entry : entries)
      if (entry.starts_with(name + '=')) return entry.c_str() + name.size() + 1;
    return nullptr;
  };
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

/// Returns whether the system permits this process to read the memory of a process; some containers
/// forbid the system call.
bool can_read_memory() {
  char from = 1, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

void set_default(const char* name, const char* value) {
  constexpr int keep = 0;
  ::setenv(name, value, keep);
}

/// Throws `Error` (output) if TMPDIR, TMP or TEMP names a directory in which this process cannot
/// create files: Open MPI ends a process without launcher then.
void require_session_directory() {
  for (const char* const name : {"TMPDIR", "TMP", "TEMP"}) {
    const char* const directory = std::getenv(name);
    if (directory == nullptr || *directory == '\0') continue;
    std::string probe = fmt::format("{}/lockstep-XXXXXX", directory);
    std::error_code ignored;
    if (fs::is_directory(directory, ignored) && ::mkdtemp(probe.data()) == nullptr) {
      const int reason = errno;
      core::fail(
          core::ExitStatus::output,
          fmt::format("{}={}: MPI cannot create its temporary files there ({}); name another "
                      "directory, or unset the variable",
                      name, directory, std::generic_category().message(reason)));
    }
    fs::remove(probe, ignored);
    return;
  }
}

#ifdef OPEN_MPI
constexpr bool is_open_mpi = true;
#else
constexpr bool is_open_mpi = false;
#endif

/// Removes a variable from the environment and restores it in the destructor.
class HiddenVariable {
 public:
  explicit HiddenVariable(const char* name) : name_(name) {
    if (const char* const value = std::getenv(name)) value_ = value;
    ::unsetenv(name);
  }
  ~HiddenVariable() {
    if (value_) set_default(name_, value_->c_str());
  }
  HiddenVariable(const HiddenVariable&) = delete;
  HiddenVariable& operator=(const HiddenVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> value_;
};

/// Sets variables of the environment that MPI reads when it is initialised. Values that the user or
/// the launcher has set take precedence; each MPI library ignores the variables of the others.
void prepare_environment(const std::optional<Launch>& launch, const MpiLibrary& library) {
  // Open MPI sends messages of more than 64 KiB over TCP only after a rendezvous handshake, for
  // which both ranks must be in an MPI call; while one of them executes a compute kernel, the
  // link is idle. This raises the eager limit so that the messages of the algorithm `direct` are
  // sent immediately.
  set_default("OMPI_MCA_btl_tcp_eager_limit", "270336");  // 256 KiB plus space for a header
  set_default("OMPI_MCA_btl_tcp_max_send_size", "270336");

  const Separation separation = launch ? separation_from(*launch, ::getppid()) : Separation{};
  // Ranks in different user namespaces cannot read each other's memory, and Open MPI 4 then waits
  // forever for large messages.
  if (separation.by_users || !can_read_memory())
    set_default("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  // Open MPI 4 mistakes the shared memory of a rank with the same process number for its own.
  if (separation.by_process_ids) set_default("OMPI_MCA_btl", "^vader");
  // MPICH 5 ends the program if it cannot read the memory of another rank.
  const bool is_separated = separation.by_users || separation.by_process_ids;
  if (library.is_mpich() && (is_separated || !can_read_memory() || restricts_ptrace()))
    set_default("MPIR_CVAR_CH4_CMA_ENABLE", "0");
}

}  // namespace

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

std::optional<int> rank_before_mpi() {
  const auto launch = announced_launch(::getenv);
  return launch ? launch->rank : std::nullopt;
}

std::optional<std::string> launcher_of_process() {
  const auto launch = announced_launch(initial_lookup());
  return launch ? std::optional(describe(*launch)) : std::nullopt;
}

bool launcher_kills_ranks() { return kills_ranks(initial_lookup()); }

MpiSession::MpiSession(int& argc, char**& argv) {
  // Read the variables before MPI_Init_thread, which may set some of them itself.
  const auto launch = announced_launch(::getenv);
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) return;

  // Open MPI 4 ends a process of a job step without PMIx, even if it is the only one, for example
  // in the shell of `srun --pty`. Without the id of the step, it starts as a singleton.
  const bool hides_step = is_open_mpi && is_step_without_pmix(::getenv);
  if (hides_step) refuse_singletons(launch, 1);
  // MPI ends the process if it cannot start its threads; a singleton also starts a daemon.
  const bool is_singleton = !launch || hides_step;
  core::require_threads(is_singleton ? 10 : 3);
  if (is_singleton) require_session_directory();
  const MpiLibrary library = loaded_mpi_library();
  refuse_foreign_mpirun(library, ::getenv);
  prepare_environment(launch, library);
  // MPI_Init of Open MPI fails without a home directory, in which it looks for settings.
  const bool lacks_home = std::getenv("HOME") == nullptr && ::getpwuid(::getuid()) == nullptr;
  if (lacks_home) set_default("HOME", "/nonexistent");
  int threads = MPI_THREAD_SINGLE;
  std::optional<HiddenVariable> step;
  if (hides_step) step.emplace("SLURM_STEP_ID");
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &threads), "MPI_Init_thread");
  step.reset();
  if (lacks_home) ::unsetenv("HOME");  // other parts of the program must not see it
  owns_mpi_ = true;
  try {
    if (threads < MPI_THREAD_FUNNELED) {
      core::fail(
          core::ExitStatus::usage,
          "this MPI library does not allow threads (MPI_THREAD_FUNNELED is refused); use one "
          "that was built with thread support");
    }
    refuse_singletons(launch, size_of(MPI_COMM_WORLD));
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
