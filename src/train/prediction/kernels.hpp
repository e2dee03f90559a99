#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/bucket_partition.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/prediction_models.hpp"

// The kernels of a training step as the CUDA backend executes them. The list follows
// backend/blueprint.cpp (order of operations), backend/cuda (kernels of each operation, conversion
// of gradients, update) and train/training_step.cpp.

namespace lockstep::train {

/// Determines the efficiency of a kernel.
enum class KernelKind { convolution, batch_norm, streaming };

/// Consecutive kernels that do one piece of work.
struct KernelWork {
  std::string what{};   ///< operation: "convolution 3x3, 64x32x32 -> 64x32x32"
  std::string phase{};  ///< "forward", "backward data", "update", ...
  KernelKind kind = KernelKind::streaming;
  double flops = 0;
  Interval bytes{};                 ///< memory traffic; more if maps do not stay on the chip
  Interval tiles{1, 1};             ///< share of the arithmetic rate that the tiles leave
  int kernels = 1;                  ///< number of kernels
  std::size_t gradients_final = 0;  ///< backward: leading elements of the flat gradients that the
                                    ///< reducer can use after this work
};

/// The kernels of a step in their order. Between `compute` and the updates the stream waits for the
/// reduced gradients.
struct StepKernels {
  std::vector<KernelWork> compute{};  ///< forward and backward pass
  /// Updates: one per bucket, or a single one if there are no buckets or if the update depends on
  /// all gradients.
  std::vector<KernelWork> updates{};
  int timestamps = 0;
};

/// Returns the kernels of a step of one rank. `choices`: the implementations of the plan
/// (`planned_kernels`). `buckets`: none if gradients are not reduced; the update then reads the
/// gradients where the operations write them.
StepKernels list_kernels(const GpuModel& gpu, const Config& config, const graph::Graph& graph,
                         std::span<const backend::OperationChoice> choices,
                         const comm::BucketPartition& buckets);

}  // namespace lockstep::train
