// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "guard/early_stop.hpp"
#include "guard/process_end_report.hpp"
#include "guard/watchdog.hpp"
#include "help.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"
#include "options/option_table.hpp"
#include "options/parse.hpp"

namespace lockstep::app {

namespace {

/// Returns a name of this process before MPI is initialised: "rank 3 on node7" if the launcher sets
/// the rank in the environment.
std::string describe_process_before_mpi() {
  const std::string host = core::host_name();
  if (const auto rank = comm::rank_before_mpi()) return fmt::format("rank {} on {}", *rank, host);
  return fmt::format("process {} on {}", ::getpid(), host);
}

/// `error`: of reading the options on this rank, reported once for all ranks.
core::ExitStatus run_command(const Invocation& invocation,
                             const std::optional<core::Error>& error) {
  comm::Communicator& communicator = invocation.communicator;
  core::begin_activity(invocation.monitor, core::Activity::comparing_options);
  train::agree(communicator, error);
  train::require_equal(communicator, {{"build", record::build_id()}}, "build");
  train::require_equal(communicator, shared_entries(invocation.options), "options");
  end_if_signalled(invocation.stopped, communicator);
  return find_command(invocation.options.command).run(invocation);
}

void log_message(const comm::Communicator& communicator, const std::string& message) {
  if (communicator.size() == 1) return core::log_line(message);
  core::log_line(fmt::format("rank {} on {}: {}", communicator.rank(), core::host_name(), message));
}

/// Runs the command and returns the exit status. After a failure one rank prints a message of one
/// line. If all ranks know of the failure, each returns its status; otherwise the rank that failed
/// aborts all ranks. Collective: all ranks must call this.
int run_program(const Invocation& invocation, const std::optional<core::Error>& error) noexcept {
  comm::Communicator& communicator = invocation.communicator;
  core::ExitStatus status = core::ExitStatus::done;
  std::optional<core::Error> failure;
  try {
    failure = train::outcome_of([&] { status = run_command(invocation, error); });
  } catch (const train::AgreedError& agreed) {
    if (agreed.is_reporting()) log_message(communicator, agreed.what());
    return static_cast<int>(agreed.status());
  }
  if (!failure) return static_cast<int>(invocation.output.finish(status));
  log_message(communicator, failure->what());
  const int code = static_cast<int>(failure->status());
  ProcessEndReport::disable();
  if (communicator.size() > 1) communicator.abort(code);  // the other ranks wait for this one
  return code;
}

}  // namespace

int run_process(int argc, char** argv, const ProcessParts& parts) {
  const core::StopSignal stop;  // a signal requests a stop from the first instruction on
  // Return large freed blocks to the system at once, so that the peak memory agrees with the
  // estimate. By default glibc raises this threshold when a block is freed and then keeps larger
  // blocks.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  try {
    StandardOutput output;
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    if (const auto text = requested_information(arguments)) {
      output.write(*text);
      return static_cast<int>(output.finish(core::ExitStatus::done));
    }
    // The watchdog exists until the process ends, because MPI may hang in initialisation and
    // finalisation.
    Watchdog watchdog(std::chrono::seconds(ProcessOptions{}.watchdog_seconds),
                      describe_process_before_mpi(),
                      comm::rank_before_mpi() ? Parent::launcher : Parent::any);
    watchdog.begin(core::Activity::reading_options, 0);
    Options options;  // the defaults if there is an error
    const std::optional<core::Error> error =
        train::outcome_of([&] { options = parse_options(arguments, process_environment()); });
    if (options.output.json) output.separate();
    watchdog.set_limit(std::chrono::seconds(options.process.watchdog_seconds));
    const train::CheckpointOptions& checkpoint = options.training.checkpoint;
    const StoppedCommand stopped{.is_training = options.command == "train",
                                 .saves_checkpoints = !checkpoint.directory.empty()};
    watchdog.limit_stop(stopped, comm::rank_before_mpi().value_or(0));
    core::ProgressMonitor& progress = parts.monitor(watchdog);
    progress.begin(core::Activity::mpi_init, 0);
    if (stopped.is_training) core::lower_processor_time_limit(checkpoint.grace_seconds);
    const std::string command_line = fmt::format("{}", fmt::join(argv, argv + argc, " "));
    const comm::MpiSession session(argc, argv);
    stop.install_handlers();
    const ProcessEndReport report(watchdog);
    progress.begin(core::Activity::creating_communicators, 0);
    const auto communicator = comm::make_communicator(session);
    watchdog.connect(*communicator);
    const int status = run_program(
        {options, stopped, command_line, *communicator, output, &progress, parts.make_backend},
        error);
    watchdog.set_status(status);
    progress.begin(core::Activity::mpi_finalize, 0);
    return status;
  } catch (const train::AgreedError& error) {  // all ranks have found it before they communicate
    if (error.is_reporting()) core::log_line(error.what());
    return static_cast<int>(error.status());
  } catch (const core::Error& error) {  // before the communicator exists
    core::log_line(error.what());
    return static_cast<int>(error.status());
  } catch (const std::bad_alloc&) {
    core::log_line("no memory left on this host");
    return static_cast<int>(core::ExitStatus::out_of_memory);
  } catch (const std::exception& error) {
    core::log_line(error.what());
    return static_cast<int>(core::ExitStatus::internal);
  }
}

}  // namespace lockstep::app
