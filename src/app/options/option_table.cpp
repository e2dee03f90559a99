// SPDX-License-Identifier: BSD-3-Clause
#include "option_table.hpp"

#include <algorithm>
#include <utility>

#include "command_set.hpp"
#include "execution_options.hpp"
#include "lockstep/record/provenance.hpp"
#include "output_options.hpp"
#include "training_options.hpp"

namespace lockstep::app {

namespace {

std::vector<Option> all_rows() {
  using enum OptionGroup;
  std::vector<Option> rows;
  struct Group {
    OptionGroup group;
    std::vector<Option> (*options)();
    unsigned commands = cmd_all;  ///< of rows that name none
  };
  for (const Group& group :
       {Group{run, run_options, cmd_run},
        Group{network, network_options, cmd_training | cmd_evaluate},
        Group{data, data_options, cmd_training}, Group{optimiser, optimiser_options, cmd_training},
        Group{communication, communication_options, cmd_training}, Group{device, device_options},
        Group{checkpoints, checkpoint_options, cmd_run}, Group{output, output_options},
        Group{single_command, single_command_options}}) {
    for (Option& option : group.options()) {
      option.group = group.group;
      if (option.group == single_command) option.common = cmd_all;
      if (option.commands == 0) option.commands = group.commands;
      if (option.value_name.empty()) option.value_name = option.value.placeholder;
      rows.push_back(std::move(option));
    }
  }
  return rows;
}

template <class Includes>
train::Entries entries_of(const Options& values, Includes includes) {
  train::Entries found{{"command", values.command}};
  for (const Option& option : options()) {
    if (option.is_recorded() && includes(option)) {
      found.emplace_back(option.name, option.value.print(values));
    }
  }
  return found;
}

}  // namespace

std::span<const Option> options() {
  static const std::vector<Option> table = all_rows();
  return table;
}

const Option* find_option(std::string_view name) {
  const auto found = std::ranges::find(options(), name, &Option::name);
  return found == options().end() ? nullptr : &*found;
}

bool is_used(std::string_view command, const Option& option) {
  return (option.commands & commands_named(command)) != 0;
}

bool is_common(std::string_view command, const Option& option) {
  return (option.commands & option.common & commands_named(command)) != 0;
}

std::vector<std::string> option_names(std::string_view command) {
  std::vector<std::string> names;
  for (const Option& option : options()) {
    if (is_used(command, option)) names.emplace_back(option.name);
  }
  return names;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const Option& option : options()) names.emplace_back(option.name);
  return names;
}

train::Entries entries(const Options& values) {
  return entries_of(values, [](const Option&) { return true; });
}

train::Entries shared_entries(const Options& values) {
  return entries_of(values, [](const Option& option) { return !option.may_differ; });
}

train::Entries experiment_entries(const Options& values) {
  train::Entries found = entries_of(values, [&values](const Option& option) {
    return option.effect.affects != Affects::neither && is_used(values.command, option);
  });
  found.insert(found.begin(), {"build", record::program_id()});
  return found;
}

}  // namespace lockstep::app
