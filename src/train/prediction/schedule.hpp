#pragma once

#include <span>
#include <vector>

#include "kernels.hpp"
#include "lockstep/train/prediction.hpp"

namespace lockstep::train {

/// Returns the time of an all-reduce of `bytes` in seconds. In a node: a ring, or the multicast of
/// NVLink (2 (n-1)/n bytes at the bus bandwidth). Between the m nodes: each rank reduces its n-th
/// part over its network adapter. Both parts overlap in the best case and follow each other in the
/// worst. `share`: 0 for the best values of the network, 1 for the worst. Throws `Error` (usage) if
/// the ranks do not fill whole nodes or if the network does not connect nodes.
double all_reduce_seconds(const NetworkModel& network, int ranks, double bytes, double share);

/// Time at which the all-reduce of a bucket may start: when its gradients are final, or after the
/// backward pass.
enum class AllReduceStart { gradients_final, backward_end };

/// The streams of one rank in a step. Times are in seconds.
struct Schedule {
  double seconds = 0;     ///< of the step
  double exposed = 0;     ///< time in which the compute stream waits for all-reduces
  double all_reduce = 0;  ///< sum of the all-reduces
  std::vector<PredictedBucket> buckets;
};

/// Schedules a step: kernels follow each other on the compute stream, all-reduces on the
/// communication stream. An update waits for its bucket, or for all buckets if it is the only one.
/// `all_reduces`: time of each bucket's all-reduce in seconds. `share`: 0 for the optimistic times
/// of the kernels, 1 for the pessimistic ones.
Schedule schedule_step(const StepKernels& kernels, const GpuModel& gpu,
                       const comm::BucketPartition& buckets, std::span<const double> all_reduces,
                       AllReduceStart start, double share);

}  // namespace lockstep::train
