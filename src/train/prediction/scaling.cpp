#include <fmt/format.h>

#include <algorithm>

#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/train/prediction.hpp"
#include "schedule.hpp"

namespace lockstep::train {

namespace {

/// Shares of the ranges of GPU and network.
struct Corner {
  double gpu, network;
};
constexpr Corner middle{0.5, 0.5};
constexpr Corner corners[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};

/// The configuration of one of `ranks` ranks.
Config config_of(Config config, int ranks, ScalingKind kind) {
  if (kind == ScalingKind::weak) {
    config.global_batch = config.batch_per_rank * ranks;
    return config;
  }
  if (config.global_batch % ranks != 0) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--global-batch {} cannot be divided among {} ranks",
                           config.global_batch, ranks));
  }
  config.batch_per_rank = config.global_batch / ranks;
  return config;
}

/// The steps of one number of ranks.
class RankCount {
 public:
  RankCount(const GpuModel& gpu, const NetworkModel& network, const Config& config,
            const graph::Graph& graph, std::span<const backend::OperationChoice> choices, int ranks)
      : gpu_(gpu),
        network_(network),
        ranks_(ranks),
        start_(config.reducer == comm::ReducerKind::allreduce ? AllReduceStart::backward_end
                                                              : AllReduceStart::gradients_final),
        buckets_(comm::partition_gradients(
            graph.parameter_elements(), ranks,
            {.kind = config.reducer, .bucket_bytes = config.bucket_bytes()})),
        bucket_bytes_(buckets_.bucket_bytes(core::size_of(config.gradient_type))),
        kernels_(list_kernels(gpu, config, graph, choices, buckets_)) {}

  Schedule schedule(const Corner& corner) const {
    std::vector<double> all_reduces;
    for (const std::size_t bytes : bucket_bytes_)
      all_reduces.push_back(
          all_reduce_seconds(network_, ranks_, static_cast<double>(bytes), corner.network));
    Schedule schedule = schedule_step(kernels_, gpu_, buckets_, all_reduces, start_, corner.gpu);
    for (std::size_t i = 0; i < bucket_bytes_.size(); ++i)
      schedule.buckets[i].bytes = bucket_bytes_[i];
    return schedule;
  }

 private:
  const GpuModel& gpu_;
  const NetworkModel& network_;
  int ranks_;
  AllReduceStart start_;
  comm::BucketPartition buckets_;
  std::vector<std::size_t> bucket_bytes_;
  StepKernels kernels_;
};

}  // namespace

std::vector<ScalingPoint> predict_scaling(const GpuModel& gpu, const NetworkModel& network,
                                          const Config& config, const graph::Graph& graph,
                                          std::span<const backend::OperationChoice> choices,
                                          std::span<const int> ranks, ScalingKind kind) {
  const RankCount single(gpu, network, config_of(config, 1, kind), graph, choices, 1);
  std::vector<ScalingPoint> points;
  for (const int count : ranks) {
    const Config own = config_of(config, count, kind);
    const RankCount several(gpu, network, own, graph, choices, count);
    const double work = kind == ScalingKind::strong ? count : 1;
    ScalingPoint point{.ranks = count, .batch_per_rank = own.batch_per_rank};
    point.seconds = {several.schedule({0, 0}).seconds, several.schedule({1, 1}).seconds};
    point.all_reduce = {several.schedule({0, 0}).all_reduce, several.schedule({1, 1}).all_reduce};
    // A fast backward pass hides less of a slow all-reduce.
    point.exposed = {several.schedule({1, 0}).exposed, several.schedule({0, 1}).exposed};
    point.efficiency = {1e300, 0};
    for (const Corner& corner : corners) {
      const double value =
          single.schedule(corner).seconds / (work * several.schedule(corner).seconds);
      point.efficiency.low = std::min(point.efficiency.low, value);
      point.efficiency.high = std::max(point.efficiency.high, value);
    }
    const Schedule expected = several.schedule(middle);
    point.images_per_second = static_cast<double>(own.batch_per_rank) * count / expected.seconds;
    point.buckets = expected.buckets;
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace lockstep::train
