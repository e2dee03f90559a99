// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/core/error.hpp"
#include "lockstep/data/loader.hpp"

namespace lockstep::train {

namespace {

void require(bool condition, const std::string& message) {
  if (!condition) core::fail(core::ExitStatus::usage, message);
}

void check_combinations(const Config& config, Purpose purpose) {
  require(!config.optimiser.nesterov || config.optimiser.momentum > 0,
          "--nesterov requires a --momentum above 0");
  require(config.reducer.gradient_type != core::DataType::float16 ||
              config.plan.precision == core::Precision::fp16,
          "--gradient-dtype fp16: sums of fp16 gradients overflow without the loss scaling of "
          "--precision fp16; use that, or fp32 or bf16");
  require(config.plan.loss_scale == 0 || config.plan.precision == core::Precision::fp16,
          "--loss-scale applies only to --precision fp16; remove it for other precisions");
  require(
      config.reducer.kind != comm::ReducerKind::none || config.batch_norm != BatchNormMode::sync,
      "--reducer none excludes communication, but --bn sync communicates statistics in every "
      "step; choose one of them");
  const bool has_server = config.reducer.kind == comm::ReducerKind::parameter_server;
  require(!has_server || config.data.residency == data::DataResidency::host,
          "--reducer parameter-server sends the images from rank 0, but --data-residency device "
          "keeps them on every GPU; choose one of them");
  require(!has_server || config.plan.precision != core::Precision::fp16,
          "--reducer parameter-server excludes --precision fp16: every rank needs the sums of the "
          "gradients for the loss scale; use bf16, tf32 or fp32");
  require(!comm::keeps_state(config.reducer.kind) || config.plan.precision != core::Precision::fp16,
          fmt::format("--reducer {} keeps gradients between steps, but the loss scale of "
                      "--precision fp16 changes between steps; use bf16, tf32 or fp32",
                      core::name(config.reducer.kind)));
  const bool has_one_length = config.epochs == 0 || config.steps == 0;
  require(has_one_length || purpose == Purpose::several_trainings,
          "--epochs and --steps were both given; give one of them");
  require(config.checkpoint.resume != "auto" || !config.checkpoint.directory.empty(),
          "--resume auto requires --checkpoint-dir DIR");
  require(config.checkpoint.resume == "none" || config.init_from.empty(),
          "--init-from and --resume were both given; a resumed run reads its weights from the "
          "checkpoint");
}

void check_pipeline(const Config& config, int ranks) {
  const int stages = config.pipeline.stages;
  require(
      ranks % stages == 0,
      fmt::format("--pipeline-stages {} requires a multiple of {} ranks, but the number of ranks "
                  "is {}",
                  stages, stages, ranks));
  require(config.batch_per_rank % config.pipeline.micro_batches == 0,
          fmt::format("--micro-batches {} does not divide the {} images of each replica; use a "
                      "divisor of {}",
                      config.pipeline.micro_batches, config.batch_per_rank, config.batch_per_rank));
  require(stages > 1 || config.pipeline.cuts == PipelineOptions{}.cuts,
          "--stage-cuts requires --pipeline-stages N");
  if (stages == 1 && config.pipeline.micro_batches == 1) return;
  require(!config.times_operations,
          "--profile measures the operations of one plan; remove it or --pipeline-stages and "
          "--micro-batches");
  require(config.plan.precision != core::Precision::fp16,
          "--precision fp16 scales the loss of the whole network on one rank, which "
          "--pipeline-stages and --micro-batches do not support; use bf16, tf32 or fp32");
  require(config.data.residency == data::DataResidency::host,
          "--data-residency device prepares whole batches on the GPU, which --pipeline-stages and "
          "--micro-batches do not support; use host");
  if (stages == 1) return;
  require(config.reducer.kind != comm::ReducerKind::parameter_server,
          "--reducer parameter-server keeps the whole network on rank 0; use another reducer with "
          "--pipeline-stages");
  require(config.reducer.kind != comm::ReducerKind::none,
          "--reducer none trains independent replicas, but the stages of a pipeline decide "
          "together; use another reducer");
  require(!comm::keeps_state(config.reducer.kind),
          fmt::format("--reducer {} stores gradients of every rank in checkpoints, which "
                      "--pipeline-stages does not support; use another reducer",
                      core::name(config.reducer.kind)));
  require(config.plan.max_gradient_norm == 0,
          "--grad-clip requires the gradients of the whole network on one rank; remove it or "
          "--pipeline-stages");
  require(config.batch_norm != BatchNormMode::local,
          "--bn local stores statistics of every rank in checkpoints, which --pipeline-stages does "
          "not support; use broadcast or sync");
}

void resolve_batch(Config& config, int ranks) {
  const bool has_local = config.batch_per_rank > 0;
  const bool has_global = config.global_batch > 0;
  require(
      has_local != has_global,
      fmt::format("{}; give exactly one of --batch-per-rank B (images per rank: weak scaling) and "
                  "--global-batch B (over all ranks: strong scaling)",
                  has_local ? "both batch sizes were given" : "no batch size was given"));
  if (has_local) {
    config.global_batch = config.batch_per_rank * ranks;
    return;
  }
  require(config.global_batch % ranks == 0,
          fmt::format("--global-batch {} cannot be divided among {} ranks; use a multiple of {}",
                      config.global_batch, ranks, ranks));
  config.batch_per_rank = data::batch_per_rank(config.global_batch, ranks);
}

}  // namespace

std::span<const core::NamedValue<BatchNormMode>> named_values(BatchNormMode) {
  static constexpr std::array<core::NamedValue<BatchNormMode>, 3> values{
      {{BatchNormMode::broadcast, "broadcast", "evaluation with the running statistics of rank 0"},
       {BatchNormMode::local, "local", "evaluation of each rank with its own"},
       {BatchNormMode::sync, "sync", "over all ranks in every step"}}};
  return values;
}

std::span<const core::NamedValue<CudaGraph>> named_values(CudaGraph) {
  static constexpr std::array<core::NamedValue<CudaGraph>, 2> values{
      {{CudaGraph::on, "on", "captured and replayed"},
       {CudaGraph::off, "off", "the host starts each kernel; for debugging"}}};
  return values;
}

std::span<const core::NamedValue<PipelineSchedule>> named_values(PipelineSchedule) {
  static constexpr std::array<core::NamedValue<PipelineSchedule>, 2> values{
      {{PipelineSchedule::gpipe, "gpipe", "all forward passes, then all backward passes"},
       {PipelineSchedule::one_forward_one_backward, "1f1b",
        "alternating; at most as many micro-batches as stages in memory"}}};
  return values;
}

Config resolve(Config config, int ranks, Purpose purpose) {
  config.optimiser.resolve();
  check_combinations(config, purpose);
  if (purpose == Purpose::training) {
    const int replicas = std::max(1, ranks / config.pipeline.stages);
    resolve_batch(config, replicas);
    check_pipeline(config, ranks);
  }
  if (config.epochs == 0 && config.steps == 0) config.epochs = 2;
  return config;
}

Config resolve_device(Config config) {
  backend::DeviceKind& kind = config.device.kind;
  kind = config.device.target_gpu.empty() ? backend::resolve(kind) : backend::DeviceKind::cuda;
  // On GPUs a bucket is larger: fewer all-reduces disturb fewer layers (not measured on a GPU).
  if (config.bucket_mib == 0) config.bucket_mib = kind == backend::DeviceKind::cuda ? 16 : 6;
  return config;
}

std::size_t Config::bucket_bytes() const {
  core::check(bucket_mib > 0, "the size of a bucket is resolved");
  return static_cast<std::size_t>(bucket_mib * (1 << 20));
}

RankState rank_state(const Config& config, int ranks) {
  if (ranks == 1) return RankState::none;
  if (config.reducer.kind == comm::ReducerKind::none) return RankState::all;
  return config.batch_norm == BatchNormMode::local ? RankState::statistics : RankState::none;
}

void require_enough_images(const Config& config, std::size_t training_images) {
  if (training_images >= static_cast<std::size_t>(config.global_batch)) return;
  core::fail(
      core::ExitStatus::input,
      fmt::format("a global batch of {} images exceeds the {} training images; use a smaller "
                  "batch or fewer ranks",
                  config.global_batch, training_images));
}

}  // namespace lockstep::train
