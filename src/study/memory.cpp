// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/memory.hpp"

#include <algorithm>

#include "lockstep/data/loader.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/plan_options.hpp"
#include "lockstep/train/timing/step_log_size.hpp"

namespace lockstep::study {

namespace {

// Memory that libraries allocate during training: kernels that oneDNN generates, stacks of threads,
// pages of code. Measured with oneDNN 2.6 as the peak memory of runs minus all other components: 14
// to 19 MB in training for the networks of `models/`, and 3 to 6 MB more if there is an inference
// plan.
constexpr std::uint64_t training_libraries = 18'000'000;
constexpr std::uint64_t inference_libraries = 5'000'000;

/// Replaces the sum over `replicas` replicas when only sizes are computed.
class NoSum final : public core::StatisticsAllReduce {
 public:
  explicit NoSum(int replicas) : replicas_(replicas) {}
  int replicas() const override { return replicas_; }
  void sum(std::span<float>) override {}

 private:
  int replicas_;
};

std::uint64_t communication_bytes(const comm::BucketPartition& buckets,
                                  const comm::ReducerOptions& reducer, Ranks ranks) {
  if (buckets.count() == 0) return 0;
  return comm::reducer_memory_bytes(buckets, ranks.all, ranks.local, reducer);
}

/// Returns the bytes of the durations of the steps of an epoch: every rank stores them, rank 0
/// gathers and writes them.
std::uint64_t record_bytes(const train::Config& config, std::size_t buckets, std::size_t images,
                           Ranks ranks) {
  const auto batch = static_cast<std::size_t>(config.global_batch);
  const std::size_t steps = data::steps_per_epoch(images, batch, config.data.last_batch);
  train::StepLogSize size{
      .steps = steps, .buckets = buckets, .ranks = static_cast<std::size_t>(ranks.all)};
  const std::uint64_t own = train::step_log_bytes(size);
  if (config.steps > 0) size.steps = std::min<std::size_t>(steps, config.steps);
  return own + train::step_gather_bytes(size);
}

std::uint64_t largest_parameter(const graph::Graph& graph) {
  std::size_t elements = 0;
  for (const auto& parameter : graph.parameters()) {
    elements = std::max(elements, parameter.elements);
  }
  return elements * sizeof(float);
}

/// Returns the bytes that rank 0 needs for checkpoints: the tensors of a file while it is written,
/// which are copies of its own and those of other ranks, and one tensor to write and one to read
/// back. `options`: of the training plan.
std::uint64_t checkpoint_bytes(const train::Config& config, const backend::PlanOptions& options,
                               const graph::Graph& graph, Ranks ranks,
                               const train::Pipeline* pipeline) {
  if (config.checkpoint.directory.empty() && config.init_from.empty()) return 0;
  const std::uint64_t transfer = 2 * largest_parameter(graph);
  if (config.checkpoint.directory.empty()) return transfer;
  const graph::Graph& network = pipeline == nullptr ? graph : pipeline->network;
  const std::uint64_t statistics = network.statistic_elements() * sizeof(float);
  const std::uint64_t all = options.parameter_bytes(network.parameter_elements()) + statistics;
  const auto others = static_cast<std::uint64_t>(ranks.all - 1);
  std::uint64_t bytes = transfer + all;
  if (comm::keeps_state(config.reducer.kind) && others > 0)
    bytes += (others + 1) * graph.parameter_elements() * sizeof(float);
  switch (train::rank_state(config, ranks.all)) {
    case train::RankState::none: return bytes;
    case train::RankState::statistics: return bytes + others * statistics;
    case train::RankState::all: return bytes + others * all;
  }
  return bytes;
}

}  // namespace

MemoryEstimate estimate_memory(const train::Config& config, const graph::Graph& graph,
                               const backend::Backend& backend, const data::DataSizes& sizes,
                               Ranks ranks, std::uint64_t process_bytes, MemoryDetail detail,
                               const train::Pipeline* pipeline) {
  const auto image = static_cast<std::uint64_t>(sizes.info.image.elements());
  const auto batch = static_cast<std::uint64_t>(config.batch_per_rank);
  const auto slots = config.data.loader_threads == 0
                         ? 1u
                         : static_cast<std::uint64_t>(config.data.loader_threads) + 2;

  NoSum batch_norm_sum(ranks.all);
  const bool is_synchronous = config.batch_norm == train::BatchNormMode::sync;
  const backend::PlanOptions options = train::training_options(
      config, sizes.info.normalisation, is_synchronous ? &batch_norm_sum : nullptr, 0, ranks.all);
  const comm::ReducerOptions reducer = train::reducer_options(config);
  const comm::BucketPartition buckets =
      comm::partition_gradients(graph.parameter_elements(), ranks.all, reducer);
  const auto memory_of = [&](const backend::PlanOptions& whole) {
    backend::PlanOptions micro_batch = whole;
    if (pipeline != nullptr && whole.mode == backend::Mode::training)
      micro_batch.batch = whole.batch / pipeline->micro_batches;
    const backend::MemoryUse memory = detail == MemoryDetail::planned
                                          ? backend.memory(graph, micro_batch)
                                          : backend.least_memory(graph, micro_batch);
    return pipeline == nullptr ? memory
                               : train::pipeline_memory(*pipeline, memory, whole, backend.device());
  };
  const backend::MemoryUse plan = memory_of(options);

  MemoryEstimate estimate;
  estimate.has_device = backend.device().available_memory().has_value();
  estimate.process = process_bytes + training_libraries;
  estimate.data = sizes.memory_bytes;
  // A parameter server prepares the batches of all ranks, and copies the batch of one to send it.
  const bool has_server =
      config.reducer.kind == comm::ReducerKind::parameter_server && ranks.all > 1;
  const std::uint64_t loaded = has_server ? batch * static_cast<std::uint64_t>(ranks.all) : batch;
  const std::uint64_t sent = has_server ? batch * image : 0;
  estimate.loader = sent + slots * (loaded * (image + sizeof(std::int32_t)) + image) +
                    (sizes.train + sizes.train / static_cast<std::size_t>(ranks.all)) *
                        sizeof(std::uint32_t);  // order of the images, all and own
  estimate.state = plan.state;
  estimate.activations = plan.activations;
  estimate.weights = plan.weights;
  estimate.workspace = plan.workspace;
  if (config.evaluate_every >= 0) {
    const std::int64_t images = train::evaluation_batch(sizes.test, ranks.all);
    estimate.evaluation =
        memory_of(train::inference_options(config, sizes.info.normalisation, images)).plan();
    if (!estimate.has_device)
      estimate.evaluation += static_cast<std::uint64_t>(images) * image + inference_libraries;
  }
  if (config.data.residency == data::DataResidency::device) {
    estimate.workspace += static_cast<std::uint64_t>(sizes.train) * (image + sizeof(std::int32_t));
  }
  estimate.checkpoint = checkpoint_bytes(config, options, graph, ranks, pipeline);
  estimate.records = record_bytes(config, buckets.count(), sizes.train, ranks);
  estimate.communication = communication_bytes(buckets, reducer, ranks);
  return estimate;
}

}  // namespace lockstep::study
