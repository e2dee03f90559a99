// SPDX-License-Identifier: BSD-3-Clause
#include "option_table.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/record/provenance.hpp"
#include "option_rows.hpp"

namespace lockstep::app {

namespace {

struct CommandBit {
  std::string_view name;
  CommandSet bit;
};
constexpr std::array<CommandBit, 8> command_bits{{{"train", cmd_train},
                                                  {"evaluate", cmd_evaluate},
                                                  {"ladder", cmd_ladder},
                                                  {"allreduce", cmd_allreduce},
                                                  {"plan", cmd_plan},
                                                  {"layers", cmd_layers},
                                                  {"stack", cmd_stack},
                                                  {"info", cmd_info}}};

unsigned bit_of(std::string_view command) {
  const auto found = std::ranges::find(command_bits, command, &CommandBit::name);
  return found == command_bits.end() ? 0U : static_cast<unsigned>(found->bit);
}

std::vector<Option> all_rows() {
  using enum OptionGroup;
  std::vector<Option> rows;
  for (const auto& [group, options_of] :
       {std::pair{run, &run_options}, std::pair{network, &network_options},
        std::pair{data, &data_options}, std::pair{optimiser, &optimiser_options},
        std::pair{communication, &communication_options}, std::pair{device, &device_options},
        std::pair{checkpoints, &checkpoint_options}, std::pair{output, &output_options},
        std::pair{single_command, &single_command_options}}) {
    for (Option& option : options_of()) {
      option.group = group;
      if (group == single_command) option.common = cmd_all;
      rows.push_back(std::move(option));
    }
  }
  return rows;
}

template <class Includes>
train::Entries entries_of(const train::Config& config, Includes includes) {
  train::Entries found{{"command", config.command}};
  for (const Option& option : options()) {
    if (option.is_recorded() && includes(option)) {
      found.emplace_back(option.name, option.value.print(config));
    }
  }
  return found;
}

}  // namespace

std::span<const core::NamedValue<OptionGroup>> named_values(OptionGroup) {
  using enum OptionGroup;
  static constexpr std::array<core::NamedValue<OptionGroup>, 9> titles{
      {{run, "Size of the run"},
       {network, "Network"},
       {data, "Data"},
       {optimiser, "Optimiser"},
       {communication, "Communication"},
       {device, "Device of each rank"},
       {checkpoints, "Checkpoints"},
       {output, "Output"},
       {single_command, "Only for this command"}}};
  return titles;
}

std::span<const core::NamedValue<AcrossRanks>> named_values(AcrossRanks) {
  static constexpr std::array<core::NamedValue<AcrossRanks>, 2> values{
      {{AcrossRanks::equal, "equal"}, {AcrossRanks::may_differ, "may differ"}}};
  return values;
}

std::span<const core::NamedValue<Affects>> named_values(Affects) {
  using enum Affects;
  static constexpr std::array<core::NamedValue<Affects>, 4> values{
      {{neither, "neither"}, {results, "results"}, {time, "time"}, {both, "both"}}};
  return values;
}

std::string Option::names() const {
  return std::string(name) + (letter.empty() ? "" : "," + std::string(letter));
}

std::string Option::default_text() const {
  if (shown_default) return std::string(*shown_default);
  return is_recorded() && !value.is_flag() ? value.print(train::Config{}) : "";
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandBit& command : command_bits) names.emplace_back(command.name);
  return names;
}

std::span<const Option> options() {
  static const std::vector<Option> table = all_rows();
  return table;
}

const Option* find_option(std::string_view name) {
  const auto found = std::ranges::find(options(), name, &Option::name);
  return found == options().end() ? nullptr : &*found;
}

bool is_used(std::string_view command, const Option& option) {
  return (option.commands & bit_of(command)) != 0;
}

bool is_common(std::string_view command, const Option& option) {
  return (option.commands & option.common & bit_of(command)) != 0;
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

train::Entries entries(const train::Config& config) {
  return entries_of(config, [](const Option&) { return true; });
}

train::Entries shared_entries(const train::Config& config) {
  return entries_of(config,
                    [](const Option& option) { return option.ranks == AcrossRanks::equal; });
}

train::Entries experiment_entries(const train::Config& config) {
  train::Entries found = entries_of(config, [&config](const Option& option) {
    return option.effect.affects != Affects::neither && is_used(config.command, option);
  });
  found.insert(found.begin(), {"build", record::program_id()});
  return found;
}

}  // namespace lockstep::app
