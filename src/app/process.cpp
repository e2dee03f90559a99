// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "guard/process_end.hpp"
#include "guard/watchdog.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/train/config.hpp"
#include "program.hpp"
#include "standard_output.hpp"

namespace lockstep::app {

int run_process(int argc, char** argv, const ProcessParts& parts) {
  const core::StopSignal stop;  // a signal requests a stop from the first instruction on
  // Return large freed blocks to the system at once, so that the peak memory agrees with the
  // estimate. By default glibc raises this threshold when a block is freed and then keeps larger
  // blocks.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  try {
    StandardOutput output;
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    if (print_information(arguments, output))
      return static_cast<int>(output.finish(core::ExitStatus::done));
    // The watchdog exists until the process ends, because MPI may hang in initialisation and
    // finalisation.
    Watchdog watchdog(std::chrono::seconds(train::Config{}.watchdog_seconds),
                      describe_process_before_mpi(),
                      comm::rank_before_mpi() ? Parent::launcher : Parent::any);
    watchdog.begin(core::Activity::reading_options, 0);
    const ProgramOptions options = read_options(argc > 0 ? argv[0] : "", arguments);
    const train::Config& config = options.config;
    if (config.json) output.separate();
    const int rank = comm::rank_before_mpi().value_or(0);
    watchdog.set_limit(std::chrono::seconds(config.watchdog_seconds));
    watchdog.limit_stop(config, rank);
    core::ProgressMonitor& progress = parts.monitor(watchdog);
    progress.begin(core::Activity::mpi_init, 0);
    if (config.command == "train")
      core::lower_processor_time_limit(config.checkpoint.grace_seconds);
    const comm::MpiSession session(argc, argv);
    stop.install_handlers();
    const ProcessEndReport report(watchdog);
    progress.begin(core::Activity::creating_communicators, 0);
    const auto communicator = comm::make_communicator(session);
    watchdog.connect(*communicator);
    const int status = run_program(options, *communicator, output, progress, parts.make_backend);
    watchdog.set_status(status);
    progress.begin(core::Activity::mpi_finalize, 0);
    return status;
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
