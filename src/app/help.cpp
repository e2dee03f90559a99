// SPDX-License-Identifier: BSD-3-Clause
#include "commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/layer.hpp"
#include "lockstep/record/provenance.hpp"
#include "options/option.hpp"

namespace lockstep::app {

namespace {

constexpr std::array<Command, 8> all_commands{{
    {"train", cmd_train, train_command, "trains a network and times every phase of every step",
     R"(Trains with synchronous data-parallel SGD, one MPI rank per device, and records how each rank spends
its time.

  lockstep train --batch-per-rank 32 --steps 20
      one rank on synthetic images: works without any data
  mpirun -n 2 lockstep train --data cifar10:DIR --batch-per-rank 128 --epochs 5 --output run.h5
      two ranks on CIFAR-10; lockstep-report makes tables and figures of run.h5
  mpirun -n 2 lockstep train --global-batch 128 --checkpoint-dir ckpt --resume auto --output run.h5
      resumes from the newest checkpoint, if there is one
)"},
    {"evaluate", cmd_evaluate, evaluate_command,
     "computes the test accuracy of the weights in a file",
     R"(Computes loss and accuracy on the test images with the weights of a checkpoint, or of an HDF5 file
with tensors under /state that are named as in PyTorch. Each image counts once for any number of ranks.

  lockstep evaluate --init-from ckpt/checkpoint-780.h5 --data cifar10:DIR
)"},
    {"ladder", cmd_ladder, ladder_command,
     "epoch time at batch 32, 128, 512, ... until memory is full",
     R"(Times an epoch at a batch of 32 images per rank, then four times as many, and so on until memory is
full. Running out of memory is the expected end and a row of the table, not an error. Each point
trains two epochs and reports the second. With --steps S it times S steps after a first one, scales
them to an epoch and marks the row.

  lockstep ladder --memory-limit 4GB --steps 2
      a short ladder: two timed steps per point
  lockstep ladder --data cifar10:DIR --output ladder.h5
)"},
    {"allreduce", cmd_allreduce, allreduce_command,
     "times all-reduces over all ranks, by message size",
     R"(Times all-reduces of arrays of growing size in the memory of the devices, and checks every element
of the sums. Between CPUs it times every algorithm of `lockstep train --all-reduce` and
MPI_Allreduce ("mpi-blocking"); between GPUs NCCL, or MPI through host memory (--transport). The
columns are those of nccl-tests, then the times of the shortest and the longest repeat, and with
--link-gbit the share of the link's rate that is used. -b, -e, -f and -n are options of nccl-tests.

  mpirun -n 2 lockstep allreduce -b 1K -e 64M -f 4 -n 20
  mpirun -n 2 lockstep allreduce --device cuda --gradient-dtype bf16
)"},
    {"plan", cmd_plan, plan_command, "estimates memory, work and communication of a training run",
     R"(Estimates what a run of `lockstep train` with these options needs: memory by purpose, floating-point
operations and bytes communicated. The total is the estimated peak of the resident memory of one
rank, without the buffers of the MPI library for messages: 0 to 30 MB on hosts with up to 8 ranks.
With --measure it runs a few steps of one rank and compares the time of each operation with a lower
bound, which follows from the measured rates of matrix products and memory copies.

  mpirun -n 2 lockstep plan --batch-per-rank 128
  lockstep plan --for h200 --precision bf16 --batch-per-rank 512
      kernels and memory on a GPU that is not in this machine; needs a build with CUDA
)"},
    {"layers", cmd_layers, layers_command,
     "measures single layers: time, memory, share of the peak rates, energy",
     R"(Measures the forward and the backward pass of single layers on one device, and compares their rates
with the measured rates of a matrix product and a memory copy. A layer is one of

LAYER-FORMS

with N images, C channels, H x W pixels, kernel size K, stride S [conv: 1, maxpool: K] and padding
P [0]; several layers are joined by '+'. A layer that does not fit in the memory is a row of the
table, not an error.

  lockstep layers --layer conv:3-128,k3,s1,p1@16x224x224+relu@16x3x224x224 --output layers.h5
)"},
    {"stack", cmd_stack, stack_command,
     "finds the deepest stack of equal layers that one or several devices hold",
     R"(Finds the largest number of equal layers in a row whose training fits in the memory of one device:
by an estimate from shapes, which is then confirmed by running the deepest stack that fits and the
next one, under the memory limit. The notation of --layer is that of `lockstep layers --help`; each
layer must keep the shape of its input. At most 10,000 layers per device are tried. With N ranks,
the stack is divided over N devices as the stages of a pipeline; --memory-limit is that of each rank.

  lockstep stack --memory-limit 2G
  mpirun -n 2 lockstep stack --layer conv:64-64,k3,p1@16x112x112 --output stack.h5
)"},
    {"info", cmd_info, info_command, "prints versions, devices, processors and limits",
     R"(Prints the versions and devices of this build and machine, the processors of each rank, and what rank 0
has read about its environment: launcher, processors, threads and limits, each with its source.

  mpirun -n 2 lockstep info
)"},
}};

/// Placeholder in a text above.
constexpr std::string_view layer_forms_here = "LAYER-FORMS";

constexpr std::string_view epilogue =
    R"(Options are taken from the command line, else from environment variables such as
LOCKSTEP_BATCH_PER_RANK=32, else from the file of --config FILE (lines such as batch-per-rank = 32).
Defaults are in [brackets].

Exit status: 0 done; 2 bad option, or ranks that differ; 3 bad input data; 4 out of memory; 5 loss not
finite; 6 output cannot be written; 70 internal error or watchdog; 75 stopped by a signal with a
checkpoint saved: run the same command again, it resumes; 128 + N stopped by signal N without one.
)";

/// Returns lines NAME=VALUE with all that distinguishes the experiment of the command line
/// `arguments`, started on `ranks` ranks: build, ranks, command, and the options that affect
/// results or times. Values that depend on the machine are not resolved. Throws `Error` (usage).
std::string experiment_text(const std::string& ranks, const std::vector<std::string>& arguments) {
  train::Config config = parse_options(arguments, process_environment());
  constexpr Range range = from_to(1, limits::ranks);
  const auto count = parse_number<std::int64_t>("ranks", ranks, range.describe());
  if (!range.contains(static_cast<long double>(count))) {
    core::fail(core::ExitStatus::usage,
               fmt::format("the number of ranks must be {}", range.describe()));
  }
  config = train::resolve(std::move(config), static_cast<int>(count));
  std::string text;
  for (const auto& [name, value] : experiment_entries(config)) {
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
  for (const Command& command : all_commands) {
    text += fmt::format("  lockstep {:<10} {}\n", command.name, command.summary);
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
  return fmt::format("lockstep {} [options]: {}\n\n{}\n{}{}", found.name, found.summary, details,
                     groups, end);
}

/// Returns the values of an option with their meaning, for example "auto (...), direct (oneDNN)".
std::string describe_values(const Option& option) {
  std::vector<std::string> texts;
  for (const ValueName& value : option.value.names) {
    texts.push_back(value.help.empty() ? value.name
                                       : fmt::format("{} ({})", value.name, value.help));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Returns the commands that use an option, or "all"; `plan` follows from `train`.
std::string describe_commands(const Option& option) {
  if (option.commands == cmd_all) return "all";
  std::vector<std::string> users;
  for (const auto& command : command_names()) {
    const bool follows = command == "plan" && is_used("train", option);
    if (is_used(command, option) && !follows) users.push_back(command);
  }
  return fmt::format("{}", fmt::join(users, ", "));
}

/// Returns what an option affects, with an asterisk if a run on one rank does not use it.
std::string describe_effect(const Effect& effect) {
  if (effect.affects == Affects::neither) return "";
  return fmt::format("{}{}", core::name(effect.affects), effect.needs_several_ranks ? "*" : "");
}

std::string page_row(const Option& option) {
  const std::string value = option.value.is_flag() ? "" : fmt::format(" {}", option.value_name);
  std::string text(option.help);
  if (!option.value.names.empty()) text += ": " + describe_values(option);
  if (!option.details.empty()) text += fmt::format(". {}", option.details);
  const std::string shown = option.value.is_flag() ? "off" : option.default_text();
  const std::string letter = option.letter.empty() ? "" : fmt::format("`-{}`, ", option.letter);
  return fmt::format("|{}`--{}{}`|{}|{}|{}|{}|\n", letter, option.name, value, shown,
                     describe_commands(option), describe_effect(option.effect), text);
}

std::string title_of(OptionGroup group) {
  return group == OptionGroup::single_command ? "Options of single commands"
                                              : std::string(core::name(group));
}

}  // namespace

std::span<const Command> commands() { return all_commands; }

const Command& find_command(std::string_view name) {
  const auto found = std::ranges::find(all_commands, name, &Command::name);
  core::check(found != all_commands.end(), "a command has a function and a help");
  return *found;
}

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

std::string options_page() {
  std::string page;
  for (const auto& group : named_values(OptionGroup{})) {
    page += fmt::format(
        "{}## {}\n\n|option|default|commands|affects|description|\n|---|---|---|---|---|\n",
        page.empty() ? "" : "\n", title_of(group.value));
    for (const Option& option : options()) {
      if (option.group == group.value) page += page_row(option);
    }
  }
  return page;
}

std::string options_json() {
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  for (const Option& option : options()) {
    std::vector<std::string> commands;
    for (const auto& command : command_names()) {
      if (is_used(command, option)) commands.push_back(command);
    }
    nlohmann::ordered_json values = nlohmann::ordered_json::array();
    for (const ValueName& value : option.value.names) {
      values.push_back({{"name", value.name}, {"help", value.help}});
    }
    table.push_back({{"name", option.name},
                     {"group", core::name(option.group)},
                     {"type", option.value.type},
                     {"range", option.value.range},
                     {"values", values},
                     {"default", option.value.is_flag() ? "false" : option.default_text()},
                     {"commands", commands},
                     {"across_ranks", option.may_differ ? "may differ" : "equal"},
                     {"effect", core::name(option.effect.affects)},
                     {"effect_requires", option.effect.needs_several_ranks ? "several ranks" : ""},
                     {"recorded", option.is_recorded()},
                     {"help", option.help},
                     {"details", option.details}});
  }
  return table.dump(2) + "\n";
}

}  // namespace lockstep::app
