#include "lockstep/comm/launcher.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string_view>

#include "lockstep/core/error.hpp"

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

}  // namespace

std::optional<LaunchPromise> promised_ranks(const EnvironmentLookup& lookup) {
  // The variables of mpirun come first, because mpirun may itself run in a job step of srun.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const auto ranks = number(lookup, name))
      return LaunchPromise{name, static_cast<int>(*ranks)};
  }
  if (!is_srun_step(lookup)) return std::nullopt;
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    if (const auto ranks = number(lookup, name))
      return LaunchPromise{name, static_cast<int>(*ranks)};
  }
  return std::nullopt;
}

void refuse_singletons(const std::optional<LaunchPromise>& promise, int mpi_ranks) {
  if (!promise || promise->ranks <= 1 || mpi_ranks > 1) return;
  const bool by_srun = promise->variable.starts_with("SLURM");
  core::fail(
      core::ExitStatus::usage,
      fmt::format("{} ranks were started ({}={}) but MPI sees only this one (launcher and MPI "
                  "library do not work together); {}",
                  promise->ranks, promise->variable, promise->ranks,
                  by_srun ? "start with `srun --mpi=pmix` (`srun --mpi=list` shows what there "
                            "is), or with mpirun inside the job"
                          : "start with the mpirun of the MPI library this program was built "
                            "with"));
}

}  // namespace lockstep::comm
