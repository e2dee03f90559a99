// SPDX-License-Identifier: BSD-3-Clause
#include "option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

namespace lockstep::app {

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
  return is_recorded() && !value.is_flag() ? value.print(Options{}) : "";
}

std::string Option::description() const {
  std::vector<std::string> names;
  for (const ValueName& each : value.names) names.push_back(each.name);
  std::string text(help);
  if (!names.empty()) text += fmt::format(": {}", fmt::join(names, ", "));
  const std::string shown = default_text();
  return shown.empty() ? text : fmt::format("{} [{}]", text, shown);
}

}  // namespace lockstep::app
