#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "../../fusion.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend::cuda {

struct Context;

/// Fusion of a batch norm with adjacent convolutions. The preceding convolution (`convolution`)
/// also computes the sums of its output that the batch norm needs (fused statistics). If `reader`
/// is set, the batch norm does not store its output: the following convolution recomputes it from
/// the input of the batch norm each time it reads it (fused normalisation). The vectors have
/// `channels` elements and are in device memory.
struct FusedBatchNorm {
  graph::NodeId convolution = -1;
  graph::NodeId batch_norm = -1;
  graph::NodeId reader = -1;  ///< the following convolution; -1: none, the output is stored
  std::int64_t channels = 0;
  float* sums = nullptr;
  float* squares = nullptr;
  std::byte* scale = nullptr;   ///< float16, for `reader`
  std::byte* offset = nullptr;  ///< float16, for `reader`

  bool has_reader() const { return reader != -1; }
};

/// All fusions of batch norms with adjacent convolutions in a plan. The constructor goes through
/// the steps of the plan and decides which batch norms to fuse (`PlanOptions::batch_norm_fusion`).
class BatchNormFusionPlan {
 public:
  BatchNormFusionPlan() = default;
  BatchNormFusionPlan(const Context& context, const std::vector<Step>& steps);

  /// Return the fusion in which the given node is the preceding convolution (`behind`), the batch
  /// norm (`of`) or the following convolution (`before`); null if there is none.
  const FusedBatchNorm* behind(graph::NodeId convolution) const;
  const FusedBatchNorm* of(graph::NodeId batch_norm) const;
  const FusedBatchNorm* before(graph::NodeId convolution) const;

  std::size_t bytes() const;  ///< size of all vectors in bytes
  /// Size in bytes of the sums and squares, which come first in the memory of the vectors and must
  /// be zeroed before each forward pass.
  std::size_t sums_bytes() const;
  void place(std::byte* memory);  ///< `memory`: `bytes()`, aligned to 256 bytes

 private:
  /// For each step, the indices of the steps that read its output.
  using Readers = std::vector<std::vector<int>>;

  void find_sums(const Context& context, const std::vector<Step>& steps, const Readers& readers);
  void find_readers(const Context& context, const std::vector<Step>& steps, const Readers& readers);
  const FusedBatchNorm* find(graph::NodeId FusedBatchNorm::*end, graph::NodeId node) const;

  std::deque<FusedBatchNorm> entries_;  ///< a deque keeps the addresses of its elements valid
};

}  // namespace lockstep::backend::cuda
