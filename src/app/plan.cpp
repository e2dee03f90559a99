// lockstep plan

#include <fmt/format.h>

#include <algorithm>

#include "console.hpp"
#include "header.hpp"
#include "job.hpp"
#include "json_output.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/train/memory.hpp"

namespace lockstep::app {

namespace {

std::vector<std::size_t> bucket_bytes(const Job& job) {
  std::vector<std::size_t> buckets;
  if (job.config.reducer == comm::ReducerKind::none) return buckets;
  const auto bucket =
      static_cast<std::size_t>(job.config.bucket_mib * (1 << 20)) / sizeof(float) * sizeof(float);
  for (std::size_t left = job.graph.parameter_elements() * sizeof(float); left > 0;) {
    buckets.push_back(std::min(bucket, left));
    left -= buckets.back();
  }
  return buckets;
}

std::int64_t steps_per_epoch(const Job& job) {
  const auto images = static_cast<std::int64_t>(job.sizes.train);
  const std::int64_t batch = job.config.global_batch;
  return job.config.last_batch == data::LastBatch::pad ? (images + batch - 1) / batch
                                                       : images / batch;
}

}  // namespace

core::ExitStatus plan_command(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  const bool is_first = communicator.rank() == 0;
  const Job job = prepare_job(invocation);
  const train::Config& config = job.config;
  Console console(voice_of(job.config, communicator));
  const std::uint64_t limit = memory_limit(job, communicator);
  const auto memory = estimate_memory(job, communicator);
  const graph::NodeCost cost = job.graph.total_cost();
  const double step_flops = cost.training_flops() * static_cast<double>(config.batch_per_rank);
  const auto buckets = bucket_bytes(job);
  const auto wire_bytes =
      static_cast<double>(job.graph.parameter_elements() * core::size_of(config.gradient_type));
  const std::int64_t steps = steps_per_epoch(job);
  const std::int64_t total = config.steps > 0 ? config.steps : config.epochs * steps;

  console.print(describe_place(job, communicator) + describe_training(job, steps, total) +
                describe_memory(memory, limit));
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
  if (memory.total() > limit) {
    console.print("\nThis does not fit: use a smaller batch, or fewer ranks per host.\n");
  }
  if (is_first && config.json) {
    auto json = describe_job(job);
    json["memory_bytes"] = {
        {"total", memory.total()},           {"limit", limit},
        {"process", memory.process},         {"data", memory.data},
        {"loader", memory.loader},           {"state", memory.state},
        {"activations", memory.activations}, {"weights", memory.weights},
        {"workspace", memory.workspace},     {"evaluation", memory.evaluation},
        {"checkpoint", memory.checkpoint},   {"communication", memory.communication}};
    json["steps_per_epoch"] = steps;
    json["forward_flops_per_image"] = cost.forward_flops;
    json["training_flops_per_image"] = cost.training_flops();
    json["training_flops_per_step_and_rank"] = step_flops;
    json["bucket_bytes"] = buckets;
    print_json(json);
  }
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
