// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

#include "../device/kernel_stopwatch.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// Times the engines of one graph on the GPU, with random inputs. Requires a GPU.
/// The constructor allocates the tensors and the workspace, which are freed with this object. It
/// throws `Error` (out_of_memory) if the memory does not suffice.
class EngineTrial {
 public:
  /// Returns whether the free memory of the GPU suffices for a trial; predicted from the sizes of
  /// the tensors, without an allocation.
  static bool fits(const Target& target, const OperationGraph& graph, std::size_t workspace_bytes);

  /// `graph`: a graph with the tensors of all engines to be timed. `workspace_bytes`: the largest
  /// workspace of these engines.
  EngineTrial(const Target& target, const OperationGraph& graph, std::size_t workspace_bytes);

  /// Returns the median execution time of several runs of a built engine of `graph` in seconds, or
  /// infinity if the engine fails.
  double seconds(const OperationGraph& graph, std::size_t engine) const;

  /// Runs engine 0 of `restored`, a graph with the same tensors. Returns false if cuDNN fails to
  /// enqueue it. Throws `Error` if the execution fails on the GPU.
  bool runs(const OperationGraph& restored) const;

 private:
  const Target& target_;
  KernelStopwatch stopwatch_;
  std::vector<core::Buffer> tensors_;
  std::vector<Binding> bindings_;
  core::Buffer workspace_;
};

}  // namespace lockstep::backend::cuda
