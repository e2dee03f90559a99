// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/mpi_session.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <pwd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include "launcher.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/thread_start.hpp"
#include "mpi_check.hpp"
#include "mpi_library.hpp"

namespace lockstep::comm {

namespace {

namespace fs = std::filesystem;

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
