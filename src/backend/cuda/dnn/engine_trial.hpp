#pragma once

#include <cstddef>
#include <vector>

#include "../device/cold_stopwatch.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// Times engines of one graph on a GPU that is present, with random inputs and cold caches. Takes
/// its memory in the constructor, which throws `Error` (out_of_memory) where it does not fit, and
/// gives it back at the end.
class EngineTrial {
 public:
  /// `workspace_bytes`: the most that an engine to be timed needs.
  EngineTrial(const Target& target, const OperationGraph& graph, std::size_t workspace_bytes);

  /// Median seconds of several runs of a built engine; infinity where it fails.
  double seconds(std::size_t engine) const;

  /// Whether a graph with the same tensors runs with its engine 0.
  bool runs(const OperationGraph& restored) const;

 private:
  const Target& target_;
  const OperationGraph& graph_;
  ColdStopwatch stopwatch_;
  std::vector<core::Buffer> tensors_;
  std::vector<Binding> bindings_;
  core::Buffer workspace_;
};

}  // namespace lockstep::backend::cuda
