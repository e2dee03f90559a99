// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "../../fusion.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend::cuda {

struct Context;

/// Fusion of a batch norm with the preceding convolution, which also computes the sums of its
/// output that the batch norm needs.
struct FusedBatchNorm {
  graph::NodeId convolution = -1;
  graph::NodeId batch_norm = -1;
  std::int64_t channels = 0;
  float* sums = nullptr;     ///< (channels), in device memory
  float* squares = nullptr;  ///< as `sums`
};

/// All fusions of batch norms with convolutions in a plan. The constructor goes through the steps
/// of the plan and decides which batch norms to fuse (`PlanOptions::batch_norm_fusion`).
class BatchNormFusionPlan {
 public:
  BatchNormFusionPlan() = default;
  BatchNormFusionPlan(const Context& context, const std::vector<Step>& steps);

  /// Return the fusion with the given convolution or batch norm; null if there is none.
  const FusedBatchNorm* after_convolution(graph::NodeId convolution) const;
  const FusedBatchNorm* of_batch_norm(graph::NodeId batch_norm) const;

  /// Size in bytes of the sums and squares, which must be zeroed before each forward pass.
  std::size_t bytes() const;
  void place(std::byte* memory);  ///< `memory`: `bytes()`, aligned to 256 bytes

 private:
  const FusedBatchNorm* find(graph::NodeId FusedBatchNorm::*end, graph::NodeId node) const;

  std::deque<FusedBatchNorm> entries_;  ///< a deque keeps the addresses of its elements valid
};

}  // namespace lockstep::backend::cuda
