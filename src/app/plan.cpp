// SPDX-License-Identifier: BSD-3-Clause
// lockstep plan

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "console.hpp"
#include "header.hpp"
#include "job.hpp"
#include "json_output.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/study/memory.hpp"
#include "lockstep/study/roofline.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"
#include "lockstep/train/plan_options.hpp"

namespace lockstep::app {

namespace {

/// Returns the sizes of the buckets in bytes in the requested data type. Ranks of one host may
/// communicate float32 instead, which is decided at the start of a run.
std::vector<std::size_t> bucket_bytes(const Job& job, int ranks) {
  const comm::ReducerOptions options = train::reducer_options(job.config);
  return comm::contributed_bytes(
      comm::partition_gradients(job.graph.parameter_elements(), ranks, options), options);
}

std::int64_t steps_per_epoch(const Job& job) {
  return static_cast<std::int64_t>(
      data::steps_per_epoch(job.sizes.train, static_cast<std::size_t>(job.config.global_batch),
                            job.config.data.last_batch));
}

std::string describe_roofline(const train::Config& config, const study::RooflineBounds& bounds) {
  const bool is_raised = !bounds.raised_by.empty();
  std::string text = fmt::format(
      "Time of each operation in a training step of one rank{}, and a lower bound (roofline "
      "model).\n"
      "The bound is the longer of GFLOP at {}FLOP/s and MB at {}/s, the highest rates measured: "
      "the\n"
      "first of {}, the second of a copy in memory. GFLOP are those of\n"
      "the chosen algorithm; MB count each map and weight once per pass over it.\n\n"
      "{:<48} {:<17} {:>2} {:>8} {:>8} {:>9} {:>9} {:>6}  {}\n",
      config.pipeline.micro_batches > 1 ? ", of one micro-batch" : "",
      core::format_count(bounds.profile.flops_per_second),
      core::format_bytes(bounds.profile.bytes_per_second),
      is_raised ? "the operation " + bounds.raised_by
                : "a matrix product of " + bounds.measured.product,
      "operation", "phase", "n", "GFLOP", "MB", "bound ms", "taken ms", "bound", "kernel");
  bool has_mark = false;
  for (const auto& row : study::group_operations(bounds.profile)) {
    has_mark = has_mark || !row.counts_bytes;
    text +=
        fmt::format("{:<48} {:<17} {:>2.0f} {:>8.2f} {:>7.1f}{} {:>9.2f} {:>9.2f} {:>5.0f}%  {}\n",
                    row.what, row.phase, row.calls, row.flops / 1e9, row.bytes / 1e6,
                    row.counts_bytes ? ' ' : '*', row.bound_seconds * 1e3, row.seconds * 1e3,
                    100 * row.bound_seconds / row.seconds, row.implementation);
  }
  text += fmt::format("\n{:<48} {:<17} {:>2} {:>8} {:>8} {:>9.2f} {:>9.2f} {:>5.0f}%\n", "the step",
                      "", "", "", "", bounds.bound_seconds * 1e3, bounds.profile.step_seconds * 1e3,
                      100 * bounds.bound_seconds / bounds.profile.step_seconds);
  if (is_raised) {
    text += fmt::format(
        "\nThe operation {} ran faster than every matrix product\n"
        "that was timed, so its rate is used. Other load on this machine is a likely cause; repeat "
        "the\nmeasurement without it.\n",
        bounds.raised_by);
  }
  if (has_mark) {
    text +=
        "\n* The bound counts GFLOP only: the operation was faster than a copy of these MB in "
        "memory, because\n  some of them stayed in a cache or were moved by another operation.\n";
  }
  return text;
}

/// Describes the kernels of a GPU, one line for all kernels of the same work. For a target GPU that
/// is not present, the text also states what timing on the GPU may change.
std::string describe_kernels(const Job& job, const std::vector<backend::OperationChoice>& kernels) {
  struct Row {
    std::string what, phase, kernel;
    int count = 0;
    bool is_of(const Row& other) const {
      return what == other.what && phase == other.phase && kernel == other.kernel;
    }
  };
  std::vector<Row> rows;
  for (const auto& kernel : kernels) {
    const Row row{job.graph.describe(kernel.node), kernel.phase, kernel.implementation};
    const auto known = std::ranges::find_if(rows, [&](const Row& r) { return r.is_of(row); });
    (known != rows.end() ? *known : rows.emplace_back(row)).count += 1;
  }
  const bool is_here = job.config.device.target_gpu.empty();
  const bool is_quick = job.config.device.engines == backend::EngineSelection::quick;
  std::string text = fmt::format(
      "\n{}\n\n{:<48} {:<17} {:>2}  {}\n",
      is_quick  ? "Kernels, the first precompiled ones that the library names (--engines quick)."
      : is_here ? "Kernels, the fastest of those that were timed on this GPU."
                : "Kernels as the library plans them for this GPU from its description, without "
                  "it. On the GPU itself\nthe fastest is found by timing: it may be another one, "
                  "with another workspace.",
      "operation", "phase", "n", "kernel");
  for (const Row& row : rows)
    text += fmt::format("{:<48} {:<17} {:>2}  {}\n", row.what, row.phase, row.count, row.kernel);
  return text;
}

nlohmann::json to_json(const study::RooflineBounds& bounds) {
  nlohmann::json json = {{"flops_per_second", bounds.profile.flops_per_second},
                         {"bytes_per_second", bounds.profile.bytes_per_second},
                         {"product", bounds.measured.product},
                         {"raised_by", bounds.raised_by},
                         {"seconds", bounds.profile.step_seconds},
                         {"floor_seconds", bounds.bound_seconds}};
  for (const auto& row : study::group_operations(bounds.profile)) {
    json["operations"].push_back({{"operation", row.what},
                                  {"phase", row.phase},
                                  {"kernel", row.implementation},
                                  {"count", static_cast<std::int64_t>(row.calls)},
                                  {"flops", row.flops},
                                  {"bytes", row.bytes},
                                  {"floor_seconds", row.bound_seconds},
                                  {"counts_bytes", row.counts_bytes},
                                  {"seconds", row.seconds}});
  }
  return json;
}

}  // namespace

core::ExitStatus plan_command(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  const bool is_first = communicator.rank() == 0;
  const Job job = prepare_job(invocation);
  const train::Config& config = job.config;
  Console console(invocation.output, verbosity_of(job.config, communicator));
  const MemoryLimit limit = memory_limit(job, communicator);
  const auto pipeline = train::make_pipeline(config, job.graph, communicator, {});  // of one stage
  const auto memory =
      estimate_memory(job, communicator, study::MemoryDetail::planned, pipeline.get());
  const graph::NodeCost cost = job.graph.total_cost();
  const double step_flops = cost.training_flops() * static_cast<double>(config.batch_per_rank);
  const auto buckets = bucket_bytes(job, communicator.size());
  const auto wire_bytes = static_cast<double>(job.graph.parameter_elements() *
                                              core::size_of(config.reducer.gradient_type));
  const std::int64_t steps = steps_per_epoch(job);
  const std::int64_t total = config.steps > 0 ? config.steps : config.epochs * steps;

  console.print(describe_place(job, communicator) +
                describe_training(job, {steps, total}, buckets) + describe_memory(memory, limit));
  console.print(fmt::format(
      "  work           {}FLOP per rank and step (forward {}, gradients of inputs {}, of weights "
      "{})\n"
      "  all-reduce     {} per step in {}; a rank sends and receives {} at least\n",
      core::format_count(step_flops),
      core::format_count(cost.forward_flops * double(config.batch_per_rank)),
      core::format_count(cost.backward_data_flops * double(config.batch_per_rank)),
      core::format_count(cost.backward_weight_flops * double(config.batch_per_rank)),
      core::format_bytes(buckets.empty() ? 0 : wire_bytes), plural(std::ssize(buckets), "bucket"),
      core::format_bytes(
          buckets.empty() ? 0 : 2 * wire_bytes * (communicator.size() - 1) / communicator.size())));
  if (memory.limited() > limit.bytes) {
    console.print(
        "\nThe estimate exceeds the memory limit; use a smaller batch or fewer ranks per host.\n");
  }
  train::Config micro_batch = config;
  micro_batch.batch_per_rank /= config.pipeline.micro_batches;
  const bool is_gpu = job.backend->device().kind() == backend::DeviceKind::cuda;
  std::vector<backend::OperationChoice> kernels;
  train::together(communicator, [&] {
    if (config.json || is_gpu)
      kernels = study::planned_kernels(micro_batch, job.graph, *job.backend);
  });
  if (is_gpu) console.print(describe_kernels(job, kernels));
  std::optional<study::RooflineBounds> bounds;
  if (config.measure) {
    train::together(communicator, [&] {
      bounds = study::measure_roofline(micro_batch, job.graph, *job.backend);
    });
    console.print("\n" + describe_roofline(config, *bounds));
  }
  if (is_first && config.json) {
    auto json = describe_job(job);
    json["memory_bytes"] = {
        {"total", memory.total()},           {"limit", limit.bytes},
        {"process", memory.process},         {"data", memory.data},
        {"loader", memory.loader},           {"state", memory.state},
        {"activations", memory.activations}, {"weights", memory.weights},
        {"workspace", memory.workspace},     {"evaluation", memory.evaluation},
        {"checkpoint", memory.checkpoint},   {"communication", memory.communication},
        {"records", memory.records}};
    json["steps_per_epoch"] = steps;
    json["forward_flops_per_image"] = cost.forward_flops;
    json["training_flops_per_image"] = cost.training_flops();
    json["training_flops_per_step_and_rank"] = step_flops;
    json["bucket_bytes"] = buckets;
    for (const auto& kernel : kernels) {
      json["kernels"].push_back({{"operation", job.graph.node(kernel.node).name},
                                 {"phase", kernel.phase},
                                 {"kernel", kernel.implementation}});
    }
    if (bounds) json["floor"] = to_json(*bounds);
    print_json(console, json);
  }
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
