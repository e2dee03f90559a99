// SPDX-License-Identifier: BSD-3-Clause
// lockstep layers

#include "lockstep/study/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.hpp"
#include "header.hpp"
#include "job.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/statistics.hpp"
#include "lockstep/train/plan_options.hpp"

namespace lockstep::app {

using core::median;

namespace {

constexpr std::string_view notes =
    "\nTimes are medians of {} passes after {} that are not counted. MB count each feature map "
    "and\n"
    "parameter once per pass over it. \"copy\" and \"peak\" are the shares of the highest measured "
    "rates:\n{}.\n"
    "More than 100 % of the copy rate: data stayed in a cache. More than 100 % of the peak: the\n"
    "algorithm (Winograd's) multiplies less than a direct convolution.\n";

/// Formats a rate as a percentage of a measured rate; "-" if that was not measured.
std::string share(double work, double seconds, double rate) {
  return rate > 0 ? fmt::format("{:.0f}%", 100 * work / seconds / rate) : "-";
}

std::string layers_head() {
  return fmt::format("{:<40} {:<9} {:>10} {:>9} {:>9} {:>5} {:>5} {:>10}\n", "layer", "pass",
                     "time", "MB", "GFLOP", "copy", "peak", "memory");
}

std::string pass_row(const record::LayerRow& row, const char* pass, double seconds, double flops,
                     double bytes, const std::string& memory) {
  return fmt::format("{:<40} {:<9} {:>10} {:>9.1f} {:>9.2f} {:>5} {:>5} {:>10}\n",
                     std::string_view(pass) == "forward" ? row.layer : "", pass,
                     core::format_seconds(seconds), bytes / 1e6, flops / 1e9,
                     share(bytes, seconds, row.bytes_per_second),
                     share(flops, seconds, row.flops_per_second), memory);
}

std::string describe_energy(const record::LayerRow& row) {
  if (!std::isfinite(row.power_watts)) return "";
  return fmt::format("{:<40} {:.0f} W, {:.2f} J for a forward and a backward pass\n", "",
                     row.power_watts, row.energy_joules);
}

std::string table_rows(const record::LayerRow& row) {
  if (row.status != "complete") {
    return fmt::format("{:<40} out of memory: {} are needed by estimate\n", row.layer,
                       core::format_bytes(double(row.estimated_bytes)));
  }
  return pass_row(row, "forward", median(row.forward_seconds), row.forward_flops, row.forward_bytes,
                  core::format_bytes(double(row.peak_bytes))) +
         pass_row(row, "backward", median(row.backward_seconds), row.backward_flops,
                  row.backward_bytes, "") +
         describe_energy(row);
}

std::string describe_rates(const backend::Ceilings& ceilings) {
  if (ceilings.flops_per_second == 0) return "this device does not measure them";
  return fmt::format("a copy of memory at {}/s, a matrix product of {} at {}FLOP/s",
                     core::format_bytes(ceilings.bytes_per_second), ceilings.product,
                     core::format_count(ceilings.flops_per_second));
}

nlohmann::json row_json(const record::LayerRow& row) {
  return {{"layer", row.layer},
          {"status", row.status},
          {"batch", row.batch},
          {"forward_seconds", row.forward_seconds},
          {"backward_seconds", row.backward_seconds},
          {"forward_flops", row.forward_flops},
          {"backward_flops", row.backward_flops},
          {"forward_bytes", row.forward_bytes},
          {"backward_bytes", row.backward_bytes},
          {"estimated_bytes", row.estimated_bytes},
          {"peak_bytes", row.peak_bytes},
          {"product_flops_per_second", row.flops_per_second},
          {"copy_bytes_per_second", row.bytes_per_second},
          {"power_watts", row.power_watts},
          {"energy_joules", row.energy_joules}};
}

/// Measures all layers and writes them to the run file.
std::vector<record::LayerRow> measure(Job& job, const backend::Ceilings& ceilings,
                                      std::uint64_t limit, std::optional<record::RunFile>& file) {
  std::vector<record::LayerRow> rows;
  record_measurement(job, file, [&] {
    for (const graph::Layer& layer : graph::parse_layers(job.options.layers.list)) {
      core::begin_activity(job.monitor, core::Activity::measuring_layer);
      const auto options = train::training_options(job.options.training, layer.batch);
      rows.push_back(study::measure_layer(options, layer, *job.backend, ceilings, limit));
      job.console.print(table_rows(rows.back()));
    }
    if (file) file->write_layers(rows);
    return record::RunStatus::complete;
  });
  return rows;
}

}  // namespace

core::ExitStatus layers_command(const Invocation& invocation) {
  Job job(invocation);
  const std::uint64_t limit = memory_limit(job).bytes;
  check_output(job);
  job.console.print(describe_device(job, limit) + "\n");
  if (job.options.output.is_dry_run) return end_dry_run(job);
  auto file = open_run_file(job);
  core::begin_activity(job.monitor, core::Activity::measuring_peak_rates);
  const backend::Ceilings ceilings = job.backend->ceilings(job.options.training.plan.precision);
  job.console.print(layers_head());
  const auto rows = measure(job, ceilings, limit, file);
  job.console.print(fmt::format(fmt::runtime(notes), study::layer_repeats, study::layer_warm_up,
                                describe_rates(ceilings)));
  const bool has_power =
      std::ranges::any_of(rows, [](const auto& row) { return std::isfinite(row.power_watts); });
  if (!has_power) job.console.print("Power and energy: not readable on this device.\n");
  auto list = nlohmann::json::array();
  for (const auto& row : rows) list.push_back(row_json(row));
  print_json(job, {{"memory_limit_bytes", limit}, {"layers", list}});
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
