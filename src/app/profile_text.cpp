// SPDX-License-Identifier: BSD-3-Clause
#include "profile_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lockstep/core/format.hpp"
#include "lockstep/study/operation_groups.hpp"

namespace lockstep::app {

namespace {

constexpr std::string_view all_reduce = "all-reduce";

/// Returns a rate in units of 10^9 per second; "-" if there is none.
std::string rate(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds / 1e9) : "-";
}

std::string describe_rates(const record::Profile& profile) {
  if (profile.ceiling_source.empty()) return "";
  if (profile.flops_per_second == 0)
    return fmt::format("Highest rates: {}.\n", profile.ceiling_source);
  return fmt::format("Highest rates: {}FLOP/s, {}/s ({}).\n",
                     core::format_count(profile.flops_per_second),
                     core::format_bytes(profile.bytes_per_second), profile.ceiling_source);
}

}  // namespace

std::string describe_operations(const record::Profile& profile) {
  std::string text = fmt::format(
      "The ceiling is the resource that needs longer at its highest rate; bound is the time at "
      "that rate\nas a share of the measured time.\n{}\n"
      "{:<48} {:<17} {:>5} {:>9} {:>6} {:>8} {:>7} {:<8} {:>6}  {}\n",
      describe_rates(profile), "operation", "phase", "calls", "ms", "share", "GFLOP/s", "GB/s",
      "ceiling", "bound", "implementation");
  double total = 0;
  for (const auto& operation : profile.operations)
    if (operation.phase != all_reduce) total += operation.seconds[0];
  for (const study::OperationGroup& row : study::group_operations(profile)) {
    const bool overlaps = row.phase == all_reduce;
    text += fmt::format(
        "{:<48} {:<17} {:>5.4g} {:>9.3f} {:>6} {:>8} {:>7} {:<8} {:>6}  {}\n", row.what,
        row.phase == row.what ? "" : row.phase, row.calls, row.seconds * 1e3,
        overlaps ? "*" : fmt::format("{:.1f}%", 100 * row.seconds / total),
        rate(row.flops, row.seconds), rate(row.bytes, row.seconds), row.ceiling,
        row.bound_seconds == 0 ? "-"
                               : fmt::format("{:.0f}%", 100 * row.bound_seconds / row.seconds),
        row.implementation);
  }
  return text + fmt::format("{:<48} {:<17} {:>5} {:>9.3f}\n", "sum", "", "", total * 1e3);
}

std::string describe(const record::Profile& profile) {
  const double with = profile.step_seconds, without = profile.step_seconds_without_profile;
  std::string text =
      fmt::format("Profile of {} training steps: times of rank 0 per step.\n", profile.steps) +
      describe_operations(profile);
  const bool communicates = std::ranges::any_of(
      profile.operations, [](const auto& operation) { return operation.phase == all_reduce; });
  if (communicates)
    text += "* overlaps with other operations; GB are those that a rank contributes\n";
  return text + fmt::format(
                    "\nCost of the profile: a step takes {} with it and {} without ({:+.1f} %; "
                    "medians of {} steps each, in turn).\n",
                    core::format_seconds(with), core::format_seconds(without),
                    100 * (with / without - 1), profile.steps);
}

nlohmann::json to_json(const record::Profile& profile) {
  nlohmann::json json = {{"steps", profile.steps},
                         {"step_seconds", profile.step_seconds},
                         {"flops_per_second", profile.flops_per_second},
                         {"bytes_per_second", profile.bytes_per_second},
                         {"ceiling_source", profile.ceiling_source},
                         {"operations", nlohmann::json::array()}};
  if (profile.step_seconds_without_profile > 0)
    json["step_seconds_without_profile"] = profile.step_seconds_without_profile;
  for (const auto& row : profile.operations)
    json["operations"].push_back({{"name", row.name},
                                  {"operation", row.what},
                                  {"phase", row.phase},
                                  {"implementation", row.implementation},
                                  {"ceiling", row.ceiling},
                                  {"calls", row.calls},
                                  {"flops", row.flops},
                                  {"bytes", row.bytes},
                                  {"bound_seconds", row.bound_seconds},
                                  {"seconds_of_ranks", row.seconds}});
  return json;
}

}  // namespace lockstep::app
