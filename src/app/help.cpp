// SPDX-License-Identifier: BSD-3-Clause
#include "help.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <sstream>

#include "commands.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/layer.hpp"
#include "lockstep/record/provenance.hpp"
#include "options/option_reference.hpp"
#include "options/option_table.hpp"
#include "options/parse.hpp"

namespace lockstep::app {

namespace {

/// Placeholder in the details of a command.
constexpr std::string_view layer_forms_here = "LAYER-FORMS";

constexpr std::string_view epilogue =
    R"(Options are taken from the command line, else from environment variables such as
LOCKSTEP_BATCH_PER_RANK=32, else from the file of --config FILE (lines such as batch-per-rank = 32).
Defaults are in [brackets].

Exit status: 0 done; 2 bad option, or ranks that differ; 3 bad input data; 4 out of memory; 5 loss
not finite; 6 output cannot be written; 70 internal error or watchdog; 75 stopped by a signal with a
checkpoint saved: run the same command again, it resumes; 128 + N stopped by signal N without one.
)";

/// Returns lines NAME=VALUE with all that distinguishes the experiment of the command line
/// `arguments`, started on `ranks` ranks: build, ranks, command, and the options that affect
/// results or times. Values that depend on the machine are not resolved. Throws `Error` (usage).
std::string experiment_text(const std::string& ranks, const std::vector<std::string>& arguments) {
  const Options values = parse_options(arguments, process_environment());
  constexpr Range range = from_to(1, limits::ranks);
  const auto count = parse_number<std::int64_t>("ranks", ranks, range.describe());
  if (!range.contains(static_cast<long double>(count))) {
    core::fail(core::ExitStatus::usage,
               fmt::format("the number of ranks must be {}", range.describe()));
  }
  const Options resolved = resolve(values, static_cast<int>(count));
  std::string text;
  for (const auto& [name, value] : experiment_entries(resolved)) {
    text += fmt::format("{}={}\n", name, value);
  }
  return text + fmt::format("ranks={}\n", count);
}

/// The options in the help of a command: those that most users need (`is_common`), or all that it
/// uses.
enum class HelpDetail { common, all };

/// Returns the help of the options of `group` that `command` uses; `detail`: of which of them.
std::string group_text(std::string_view command, OptionGroup group, HelpDetail detail) {
  constexpr unsigned line_length = 100;
  boost::program_options::options_description described(std::string(core::name(group)), line_length,
                                                        line_length / 2);
  for (const Option& option : options()) {
    const bool is_shown =
        detail == HelpDetail::all ? is_used(command, option) : is_common(command, option);
    if (option.group != group || !is_shown) continue;
    const std::string name = option.names(), help = option.description();
    if (option.value.is_flag()) {
      described.add_options()(name.c_str(), help.c_str());
    } else {
      const std::string value_name(option.value_name);
      described.add_options()(name.c_str(),
                              boost::program_options::value<std::string>()->value_name(value_name),
                              help.c_str());
    }
  }
  if (described.options().empty()) return "";
  std::ostringstream text;
  text << described << '\n';
  return text.str();
}

std::string overview_text() {
  std::string text =
      "Lockstep trains networks with synchronous data-parallel SGD over MPI ranks and records how\n"
      "each rank spends its time.\n\n";
  for (const Command& command : commands()) {
    text += fmt::format("  lockstep {:<10} {}\n", command.name(), command.summary);
  }
  return text +
         "\nlockstep COMMAND --help lists the common options with their defaults, --help-all all\n"
         "options. lockstep help options prints the reference of all options; lockstep help\n"
         "options-json as JSON. lockstep help experiment RANKS COMMAND [options] prints what\n"
         "distinguishes the runs of a command from others: the build, and the options that affect\n"
         "results or times. A first run:\n\n"
         "  lockstep train --batch-per-rank 32 --steps 20\n";
}

/// Returns the help of a command: description, examples, and its options in groups.
std::string help_text(std::string_view command, HelpDetail detail) {
  const Command& found = find_command(command);
  std::string groups;
  for (const auto& group : named_values(OptionGroup{}))
    groups += group_text(command, group.value, detail);
  std::string details(found.details);
  if (const std::size_t at = details.find(layer_forms_here); at != std::string::npos) {
    details.replace(at, layer_forms_here.size(),
                    fmt::format("  {}", fmt::join(graph::layer_forms(), "\n  ")));
  }
  const std::string end =
      detail == HelpDetail::all
          ? std::string(epilogue)
          : fmt::format(
                "Defaults are in [brackets]. lockstep {} --help-all lists all {} options.\n",
                command, option_names(command).size());
  return fmt::format("lockstep {} [options]: {}\n{}\n{}{}", found.name(), found.summary, details,
                     groups, end);
}

}  // namespace

std::optional<std::string> requested_information(const std::vector<std::string>& arguments) {
  const auto has = [&](std::string_view argument) {
    return std::ranges::find(arguments, argument) != arguments.end();
  };
  if (has("--version") || has("-V")) return record::build_id() + "\n";
  if (arguments.empty()) return overview_text();
  if (arguments.front() == "help") {
    const std::string topic = arguments.size() > 1 ? arguments[1] : "";
    if (topic == "options") return options_page();
    if (topic == "options-json") return options_json();
    if (topic == "experiment" && arguments.size() > 3)
      return experiment_text(arguments[2], {arguments.begin() + 3, arguments.end()});
    return overview_text();
  }
  const bool asks_all = has("--help-all");
  if (!asks_all && !has("--help") && !has("-h")) return std::nullopt;
  if (std::ranges::find(commands(), arguments.front(), &Command::name) == commands().end())
    return overview_text();
  return help_text(arguments.front(), asks_all ? HelpDetail::all : HelpDetail::common);
}

}  // namespace lockstep::app
