// SPDX-License-Identifier: BSD-3-Clause
// lockstep stack

#include "lockstep/study/layers.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "commands.hpp"
#include "header.hpp"
#include "job.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/statistics.hpp"
#include "lockstep/study/stack.hpp"
#include "lockstep/train/plan_options.hpp"

namespace lockstep::app {

namespace {

std::string stack_head() {
  return fmt::format("{:<32} {:>7} {:>6} {:>9} {:<14} {:>10} {:>10} {:>10}\n", "layer", "devices",
                     "depth", "estimated", "result", "memory", "peak", "forward");
}

std::string table_row(const record::StackRow& row) {
  const std::string result = row.status == "complete" ? "fits" : "out of memory";
  const bool is_run = !row.forward_seconds.empty();
  return fmt::format("{:<32} {:>7} {:>6} {:>9} {:<14} {:>10} {:>10} {:>10}\n", row.layer,
                     row.stages, row.depth, row.estimated_depth, result,
                     core::format_bytes(double(row.estimated_bytes)),
                     is_run ? core::format_bytes(double(row.peak_bytes)) : "-",
                     is_run ? core::format_seconds(core::median(row.forward_seconds)) : "-");
}

nlohmann::json row_json(const record::StackRow& row) {
  return {{"layer", row.layer},
          {"status", row.status},
          {"stages", row.stages},
          {"depth", row.depth},
          {"estimated_depth", row.estimated_depth},
          {"limit_bytes", row.limit_bytes},
          {"estimated_bytes", row.estimated_bytes},
          {"peak_bytes", row.peak_bytes},
          {"forward_seconds", row.forward_seconds}};
}

/// Measures the stacks of all layers and writes them to the run file.
std::vector<record::StackRow> measure(Job& job, const study::MemoryLimit& limit,
                                      std::optional<record::RunFile>& file) {
  std::vector<record::StackRow> rows;
  const auto attempted = [&](std::int64_t depth) {
    core::begin_activity(job.monitor, core::Activity::running_stack, depth);
  };
  record_measurement(job, file, [&] {
    for (const graph::Layer& layer : graph::parse_layers(job.options.layers.list)) {
      core::begin_activity(job.monitor, core::Activity::estimating_memory);
      const auto options = train::training_options(job.options.training, layer.batch);
      for (auto& row :
           study::measure_stack(options, layer, *job.backend, job.communicator, limit, attempted)) {
        job.console.print(table_row(row));
        rows.push_back(std::move(row));
      }
    }
    if (file) file->write_stack(rows);
    return record::RunStatus::complete;
  });
  return rows;
}

}  // namespace

core::ExitStatus stack_command(const Invocation& invocation) {
  Job job(invocation);
  const study::MemoryLimit limit = memory_limit(job);
  check_output(job);
  job.console.print(describe_device(job, limit.bytes) + "\n");
  if (job.options.output.is_dry_run) return end_dry_run(job);
  auto file = open_run_file(job);
  job.console.print(stack_head());
  const auto rows = measure(job, limit, file);
  job.console.print(fmt::format(
      "\nA stack fits if a forward and a backward pass run within the memory limit. \"estimated\" "
      "and "
      "\n\"memory\" are the depth and the memory by the estimate from shapes. Times are medians of "
      "{}\nforward passes after {} that are not counted.\n",
      study::layer_repeats, study::layer_warm_up));
  if (job.communicator.size() > 1) {
    job.console.print(
        "The layers are divided equally among the devices, up to a difference of one. Memory is "
        "that of\nthe device that needs most. A forward pass goes through all devices.\n");
  }
  auto list = nlohmann::json::array();
  for (const auto& row : rows) list.push_back(row_json(row));
  print_json(job, {{"memory_limit_bytes", limit.bytes}, {"stack", list}});
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
