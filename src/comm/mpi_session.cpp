#include <fmt/format.h>
#include <mpi.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "launcher.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"

namespace lockstep::comm {

namespace {

std::optional<std::int64_t> number(const EnvironmentLookup& lookup, const char* name) {
  const char* text = lookup(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Slurm numbers the job steps of `srun` from 0. The batch script, the shell of an allocation and
// other special steps have ids at the top of the 32-bit range, or none.
bool is_srun_step(const EnvironmentLookup& lookup) {
  constexpr std::int64_t first_special_step = 0xfffffff0;
  const auto step = number(lookup, "SLURM_STEP_ID");
  const bool is_terminal = lookup("SLURM_PTY_PORT") != nullptr;  // `srun --pty bash`
  return step && *step >= 0 && *step < first_special_step && lookup("SLURM_PROCID") != nullptr &&
         !is_terminal;
}

/// Open MPI sends messages of more than 64 KiB over TCP only after a rendezvous handshake, for
/// which both ranks must be in an MPI call; while one of them executes a compute kernel, the link
/// is idle. This raises the eager limit so that the messages of the algorithm `direct` are sent
/// immediately. Values that the user or the launcher has set take precedence; other MPI libraries
/// ignore these variables.
void prefer_eager_messages() {
  constexpr int keep = 0;
  setenv("OMPI_MCA_btl_tcp_eager_limit", "270336", keep);  // 256 KiB plus space for a header
  setenv("OMPI_MCA_btl_tcp_max_send_size", "270336", keep);
}

}  // namespace

std::optional<AnnouncedRanks> announced_ranks(const EnvironmentLookup& lookup) {
  // The variables of mpirun come first, because mpirun may itself run in a job step of srun.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const auto ranks = number(lookup, name))
      return AnnouncedRanks{name, static_cast<int>(*ranks)};
  }
  if (!is_srun_step(lookup)) return std::nullopt;
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    if (const auto ranks = number(lookup, name))
      return AnnouncedRanks{name, static_cast<int>(*ranks)};
  }
  return std::nullopt;
}

std::optional<int> announced_rank(const EnvironmentLookup& lookup) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const auto rank = number(lookup, name)) return static_cast<int>(*rank);
  }
  if (!is_srun_step(lookup)) return std::nullopt;
  const auto rank = number(lookup, "SLURM_PROCID");
  return rank ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

std::optional<int> rank_before_mpi() {
  return announced_rank([](const char* name) { return std::getenv(name); });
}

void refuse_singletons(const std::optional<AnnouncedRanks>& announced, int mpi_ranks) {
  if (!announced || announced->ranks <= 1 || mpi_ranks > 1) return;
  const bool by_srun = announced->variable.starts_with("SLURM");
  core::fail(
      core::ExitStatus::usage,
      fmt::format("{} ranks were started ({}={}) but MPI sees only this one (launcher and MPI "
                  "library do not work together); {}",
                  announced->ranks, announced->variable, announced->ranks,
                  by_srun ? "start with `srun --mpi=pmix` (`srun --mpi=list` shows what there "
                            "is), or with mpirun inside the job"
                          : "start with the mpirun of the MPI library this program was built "
                            "with"));
}

MpiSession::MpiSession(int& argc, char**& argv) {
  // Read the variables before MPI_Init_thread, which may set some of them itself.
  const auto announced = announced_ranks([](const char* name) { return std::getenv(name); });
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) return;

  prefer_eager_messages();
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
    refuse_singletons(announced, ranks);
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

void finalize_early() {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) MPI_Finalize();
}

}  // namespace lockstep::comm
