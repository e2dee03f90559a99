// SPDX-License-Identifier: BSD-3-Clause
// lockstep plan

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.hpp"
#include "header.hpp"
#include "job.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/data/loader.hpp"
#include "lockstep/study/memory.hpp"
#include "lockstep/study/roofline.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"
#include "lockstep/train/plan_options.hpp"
#include "profile_text.hpp"

namespace lockstep::app {

namespace {

/// Returns the sizes of the buckets in bytes in the requested data type. Ranks of one host may
/// communicate float32 instead, which is decided at the start of a run.
std::vector<std::size_t> bucket_sizes(const Job& job, int ranks) {
  const comm::ReducerOptions options = train::reducer_options(job.options.training);
  return comm::contributed_bytes(
      comm::partition_gradients(job.graph.parameter_elements(), ranks, options), options);
}

/// Returns the lower bound of a step in seconds: the sum over its operations.
double bound_seconds(const record::Profile& profile) {
  double seconds = 0;
  for (const auto& operation : profile.operations) seconds += operation.bound_seconds;
  return seconds;
}

std::string describe_roofline(const train::Config& config, const record::Profile& profile) {
  const double bound = bound_seconds(profile);
  return fmt::format(
      "\nTime of each operation in a training step of one rank{}, and a lower bound (roofline "
      "model).\n{}\nBound of the step: {:.2f} ms; measured: {:.2f} ms; share: {:.0f} %\n",
      config.pipeline.micro_batches > 1 ? ", of one micro-batch" : "", describe_operations(profile),
      1e3 * bound, 1e3 * profile.step_seconds, 100 * bound / profile.step_seconds);
}

/// Describes the kernels of a GPU, one line for all kernels of the same work. For a target GPU that
/// is not present, the text also states what timing on the GPU may change.
std::string describe_kernels(const Job& job, const std::vector<backend::OperationChoice>& kernels) {
  using Row = std::array<std::string, 3>;  // operation, phase, kernel
  std::vector<std::pair<Row, int>> rows;   // with the number of their kernels
  for (const auto& kernel : kernels) {
    const Row row{job.graph.describe(kernel.node), kernel.phase, kernel.implementation};
    const auto known = std::ranges::find(rows, row, &std::pair<Row, int>::first);
    (known != rows.end() ? *known : rows.emplace_back(row, 0)).second += 1;
  }
  const bool is_here = job.options.training.device.target_gpu.empty();
  const bool is_quick = job.options.training.device.engines == backend::EngineSelection::quick;
  std::string text = fmt::format(
      "\n{}\n\n{:<48} {:<17} {:>2}  {}\n",
      is_quick  ? "Kernels, the first precompiled ones that the library names (--engines quick)."
      : is_here ? "Kernels, the fastest of those that were timed on this GPU."
                : "Kernels as the library plans them for this GPU from its description, without "
                  "it. On the GPU itself\nthe fastest is found by timing: it may be another one, "
                  "with another workspace.",
      "operation", "phase", "n", "kernel");
  for (const auto& [row, count] : rows)
    text += fmt::format("{:<48} {:<17} {:>2}  {}\n", row[0], row[1], count, row[2]);
  return text;
}

}  // namespace

core::ExitStatus plan_command(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  Job job(invocation);
  const train::Config& config = job.options.training;
  const study::MemoryLimit limit = memory_limit(job);
  const auto pipeline = train::make_pipeline(config, job.graph, communicator, {});  // of one stage
  const auto memory = estimate_memory(job, study::MemoryDetail::planned, pipeline.get());
  const graph::NodeCost cost = job.graph.total_cost();
  const double step_flops = cost.training_flops() * static_cast<double>(config.batch_per_rank);
  const auto buckets = bucket_sizes(job, communicator.size());
  const auto wire_bytes = static_cast<double>(job.graph.parameter_elements() *
                                              core::size_of(config.reducer.gradient_type));
  const auto steps = static_cast<std::int64_t>(data::steps_per_epoch(
      job.sizes.train, static_cast<std::size_t>(config.global_batch), config.data.last_batch));
  const std::int64_t total = config.steps > 0 ? config.steps : config.epochs * steps;

  job.console.print(describe_place(job) + describe_training(job, steps, total, buckets) +
                    describe_memory(memory, limit));
  job.console.print(fmt::format(
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
    job.console.print(
        "\nThe estimate exceeds the memory limit; use a smaller batch or fewer ranks per host.\n");
  }
  const backend::PlanOptions options =
      train::training_options(config, config.images_per_micro_batch());
  const bool is_gpu = job.backend->device().kind() == backend::DeviceKind::cuda;
  std::vector<backend::OperationChoice> kernels;
  train::together(communicator, [&] {
    if (job.options.output.json || is_gpu) kernels = job.backend->choices(job.graph, options);
  });
  if (is_gpu) job.console.print(describe_kernels(job, kernels));
  const std::size_t cut_off = job.backend->cut_off_selections();
  if (cut_off > 0)
    job.console.print(fmt::format("\n{} of the selections {} cut off by --engine-seconds.\n",
                                  cut_off, cut_off == 1 ? "was" : "were"));
  std::optional<record::Profile> measured;
  if (job.options.measures_roofline) {
    train::together(communicator,
                    [&] { measured = study::measure_roofline(options, job.graph, *job.backend); });
    job.console.print(describe_roofline(config, *measured));
  }
  nlohmann::json json;
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
  if (is_gpu) json["kernel_selections_cut_off"] = cut_off;
  if (measured) {
    json["floor"] = to_json(*measured);
    json["floor"]["seconds"] = measured->step_seconds;
    json["floor"]["floor_seconds"] = bound_seconds(*measured);
  }
  print_json(job, json);
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
