#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/prediction_models.hpp"

// Prediction of the time of a training step on a GPU that need not be present. The time of a kernel
// is the longest of its floating-point operations at the achievable rate, its bytes at the memory
// bandwidth, both reduced by an efficiency, and the shortest time of a kernel; plus the gap to the
// next kernel. Each efficiency is an interval, so each time is one: from optimistic to pessimistic.

namespace lockstep::train {

/// All work of one kind, shape and phase in a step.
struct PredictedRow {
  std::string what{}, phase{};
  int count = 0;    ///< number of operations
  int kernels = 0;  ///< number of kernels
  double flops = 0;
  Interval bytes{};          ///< memory traffic
  double bound_seconds = 0;  ///< longer of `flops` and `bytes.low` at the rates of the GPU
  Interval seconds{};        ///< predicted
};

/// Predicted time of the step of one rank, without waiting for other ranks.
struct StepPrediction {
  std::vector<PredictedRow> rows{};  ///< in descending order of the predicted time
  double bound_seconds = 0;          ///< sum over the rows
  Interval seconds{};                ///< sum over the rows
};

/// Predicts the step of one of `ranks` ranks. `config`: resolved. `choices`: the implementations of
/// the plan for the GPU (`planned_kernels`).
StepPrediction predict_step(const GpuModel& gpu, const Config& config, const graph::Graph& graph,
                            std::span<const backend::OperationChoice> choices, int ranks);

/// Batch size that stays the same when ranks are added: per rank (weak) or of all ranks (strong).
enum class ScalingKind { weak, strong };

/// Predicted times of the all-reduce of a bucket, in seconds since the start of the step.
struct PredictedBucket {
  std::size_t bytes = 0;
  double ready = 0;  ///< all gradients of the bucket are final
  double start = 0, end = 0;
};

/// Predicted step of a number of ranks. The bounds of an interval are the best and the worst
/// combination of the ranges of the GPU and of the network.
struct ScalingPoint {
  int ranks = 1;
  std::int64_t batch_per_rank = 0;
  Interval seconds{};                      ///< of a step
  Interval all_reduce{};                   ///< sum of the all-reduces of a step, in seconds
  Interval exposed{};                      ///< exposed communication, in seconds
  Interval efficiency{};                   ///< weak: t(1)/t(N); strong: T(1)/(N T(N))
  double images_per_second = 0;            ///< of all ranks, in the middle of the ranges
  std::vector<PredictedBucket> buckets{};  ///< in the middle of the ranges
};

/// Predicts the step for each number of ranks. The all-reduces of the buckets follow each other on
/// the communication stream and do not slow down the computation. Throws `Error` (usage) if the
/// global batch or the nodes of the network cannot be divided among the ranks.
std::vector<ScalingPoint> predict_scaling(const GpuModel& gpu, const NetworkModel& network,
                                          const Config& config, const graph::Graph& graph,
                                          std::span<const backend::OperationChoice> choices,
                                          std::span<const int> ranks, ScalingKind kind);

}  // namespace lockstep::train
