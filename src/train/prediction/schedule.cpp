#include "schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel_time.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::train {

namespace {

/// Number of ranks in a node above which NCCL's multicast over NVLink exceeds the ring
/// (NVIDIA/nccl issue 1455).
constexpr int ring_ranks = 4;

void require(bool condition, const std::string& message) {
  if (!condition) core::fail(core::ExitStatus::usage, message);
}

}  // namespace

double all_reduce_seconds(const NetworkModel& network, int ranks, double bytes, double share) {
  if (ranks == 1) return 0;
  const int local = std::min(ranks, network.ranks_per_node);
  require(ranks % local == 0, fmt::format("--ranks {}: the nodes of the network {} have {} ranks; "
                                          "use a multiple of it",
                                          ranks, network.name, local));
  const int nodes = ranks / local;
  require(nodes == 1 || network.adapter,
          fmt::format("--ranks {}: the network {} has {} ranks and no 'adapter' between nodes",
                      ranks, network.name, local));
  const auto best_is_high = [&](const Interval& rate) { return rate.at(1 - share); };
  double latency = network.base_latency.at(share);
  double in_node = 0, between = 0;
  if (local > 1) {
    const bool is_large = local > ring_ranks && network.bus_of_8;
    const Interval& bus = is_large ? *network.bus_of_8 : *network.bus;
    in_node = 2.0 * (local - 1) / local * bytes / best_is_high(bus);
    latency += 2.0 * (local - 1) * network.node_step.at(share);
  }
  if (nodes > 1) {
    between = 2.0 * (nodes - 1) / nodes * bytes / local / best_is_high(*network.adapter);
    latency += 2.0 * std::ceil(std::log2(nodes)) * network.network_step.at(share);
  }
  return latency + std::max(in_node, between) + share * std::min(in_node, between);
}

Schedule schedule_step(const StepKernels& kernels, const GpuModel& gpu,
                       const comm::BucketPartition& buckets, std::span<const double> all_reduces,
                       AllReduceStart start, double share) {
  Schedule schedule;
  double now = gpu.graph_gap.at(share), communication = 0;
  const auto start_up_to = [&](std::size_t count) {
    while (schedule.buckets.size() < count) {
      const std::size_t bucket = schedule.buckets.size();
      PredictedBucket& times = schedule.buckets.emplace_back();
      times.ready = now;
      times.start = std::max(now, communication);
      times.end = communication = times.start + all_reduces[bucket];
      schedule.all_reduce += all_reduces[bucket];
    }
  };
  for (const KernelWork& work : kernels.compute) {
    now += time_of(work, gpu).at(share);
    if (start == AllReduceStart::gradients_final) start_up_to(buckets.full(work.gradients_final));
  }
  start_up_to(buckets.count());
  for (std::size_t i = 0; i < kernels.updates.size(); ++i) {
    if (!schedule.buckets.empty()) {
      const bool needs_all = kernels.updates.size() == 1;
      const double end = (needs_all ? schedule.buckets.back() : schedule.buckets[i]).end;
      schedule.exposed += std::max(0.0, end - now);
      now = std::max(now, end);
    }
    now += time_of(kernels.updates[i], gpu).at(share);
  }
  schedule.seconds = now + kernels.timestamps * gpu.timestamp.at(share);
  return schedule;
}

}  // namespace lockstep::train
