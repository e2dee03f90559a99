#include "program.hpp"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "commands.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/record/provenance.hpp"
#include "lockstep/train/agreement.hpp"
#include "options.hpp"

namespace lockstep::app {

namespace {

using Command = core::ExitStatus (*)(const Invocation&);
constexpr std::array<std::pair<std::string_view, Command>, 6> commands{
    {{"train", train_command},
     {"evaluate", evaluate_command},
     {"ladder", ladder_command},
     {"allreduce", allreduce_command},
     {"plan", plan_command},
     {"info", info_command}}};

std::vector<std::string> arguments_of(int argc, char** argv) {
  return argc > 1 ? std::vector<std::string>(argv + 1, argv + argc) : std::vector<std::string>{};
}

std::string command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i == 0 ? "" : " ") + std::string(argv[i]);
  return line;
}

core::ExitStatus run_command(int argc, char** argv, comm::Communicator& communicator) {
  train::Config config;
  train::together(communicator,
                  [&] { config = parse_options(arguments_of(argc, argv), process_environment()); });
  train::require_equal(communicator, {{"build", record::build_id()}}, "build");
  train::require_equal(communicator, train::shared_entries(config), "options");
  for (const auto& [name, command] : commands) {
    if (name == config.command) return command({config, command_line(argc, argv), communicator});
  }
  core::fail(core::ExitStatus::internal, "internal error: a command without a function");
}

void say(const comm::Communicator& communicator, const std::string& message) {
  if (communicator.size() == 1) return core::log_line(message);
  core::log_line(fmt::format("rank {} on {}: {}", communicator.rank(),
                             record::describe_process().hostname, message));
}

}  // namespace

bool print_information(int argc, char** argv) {
  const auto text = information_asked_for(arguments_of(argc, argv));
  if (text) std::fputs(text->c_str(), stdout);
  return text.has_value();
}

int run_program(int argc, char** argv, comm::Communicator& communicator) noexcept {
  // A file system that is full must come back as an error of write, not as a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  core::ExitStatus status = core::ExitStatus::done;
  std::optional<core::Error> failure;
  try {
    failure = train::outcome_of([&] { status = run_command(argc, argv, communicator); });
  } catch (const train::AgreedError& error) {
    if (error.speaks()) say(communicator, error.what());
    return static_cast<int>(error.status());
  }
  if (!failure) return static_cast<int>(status);
  say(communicator, failure->what());
  const int code = static_cast<int>(failure->status());
  if (communicator.size() > 1) communicator.abort(code);  // the others wait for this one
  return code;
}

}  // namespace lockstep::app
