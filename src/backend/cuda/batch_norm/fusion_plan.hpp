// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "../../fusion.hpp"

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

  std::size_t vector_bytes() const;  ///< of `sums` and of `squares`, with padding
};

/// All fusions of batch norms with convolutions in a plan. The constructor goes through the steps
/// of the plan and decides which batch norms to fuse (`PlanOptions::batch_norm_fusion`).
class BatchNormFusionPlan {
 public:
  BatchNormFusionPlan() = default;
  BatchNormFusionPlan(const Context& context, const std::vector<Step>& steps);

  /// Returns the fusion of a node, a convolution or a batch norm; null if there is none.
  const FusedBatchNorm* find(graph::NodeId node) const;

  /// Size in bytes of the sums and squares, which must be zeroed before each forward pass.
  std::size_t bytes() const;
  void place(std::byte* memory);  ///< `memory`: `bytes()`, aligned to 256 bytes

 private:
  std::deque<FusedBatchNorm> entries_;  ///< a deque keeps the addresses of its elements valid
};

}  // namespace lockstep::backend::cuda
