// SPDX-License-Identifier: BSD-3-Clause
#include "program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "commands.hpp"
#include "guard/early_stop.hpp"
#include "guard/process_end.hpp"
#include "help.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"
#include "options/option_table.hpp"
#include "options/parse.hpp"

namespace lockstep::app {

namespace {

core::ExitStatus run_command(const ProgramOptions& options, comm::Communicator& communicator,
                             StandardOutput& output, core::ProgressMonitor& progress,
                             const BackendFactory& make_backend) {
  progress.begin(core::Activity::comparing_options, 0);
  const train::Config& config = options.config;
  train::agree(communicator, options.error);
  train::require_equal(communicator, {{"build", record::build_id()}}, "build");
  train::require_equal(communicator, shared_entries(config), "options");
  end_if_signalled(config, communicator);
  return find_command(config.command)
      .run({config, options.command_line, communicator, output, &progress, make_backend});
}

void log_message(const comm::Communicator& communicator, const std::string& message) {
  if (communicator.size() == 1) return core::log_line(message);
  core::log_line(fmt::format("rank {} on {}: {}", communicator.rank(), core::host_name(), message));
}

}  // namespace

bool print_information(const std::vector<std::string>& arguments, StandardOutput& output) {
  const auto text = requested_information(arguments);
  if (text) output.write(*text);
  return text.has_value();
}

ProgramOptions read_options(const char* program, const std::vector<std::string>& arguments) {
  ProgramOptions options{.command_line = program, .config = {}, .error = {}};
  for (const std::string& argument : arguments) options.command_line += " " + argument;
  options.error =
      train::outcome_of([&] { options.config = parse_options(arguments, process_environment()); });
  return options;
}

std::string describe_process_before_mpi() {
  const std::string host = core::host_name();
  if (const auto rank = comm::rank_before_mpi()) return fmt::format("rank {} on {}", *rank, host);
  return fmt::format("process {} on {}", ::getpid(), host);
}

int run_program(const ProgramOptions& options, comm::Communicator& communicator,
                StandardOutput& output, core::ProgressMonitor& progress,
                const BackendFactory& make_backend) noexcept {
  core::ExitStatus status = core::ExitStatus::done;
  std::optional<core::Error> failure;
  try {
    failure = train::outcome_of(
        [&] { status = run_command(options, communicator, output, progress, make_backend); });
  } catch (const train::AgreedError& error) {
    if (error.is_reporting()) log_message(communicator, error.what());
    return static_cast<int>(error.status());
  }
  if (!failure) return static_cast<int>(output.finish(status));
  log_message(communicator, failure->what());
  const int code = static_cast<int>(failure->status());
  ProcessEndReport::disable();
  if (communicator.size() > 1) communicator.abort(code);  // the other ranks wait for this one
  return code;
}

}  // namespace lockstep::app
