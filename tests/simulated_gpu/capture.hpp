// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "lockstep/core/cuda.hpp"

namespace lockstep::simulated_gpu {

/// A CUDA graph that contains the work of a function, for tests.
class CapturedGraph {
 public:
  /// Captures `work`, which enqueues on `stream`, and instantiates the graph.
  CapturedGraph(const core::Stream& stream, const std::function<void()>& work) {
    using core::check_cuda;
    check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "capture");
    work();
    check_cuda(cudaStreamEndCapture(stream.get(), &graph_), "capture");
    check_cuda(cudaGraphInstantiate(&exec_, graph_, 0), "instantiation");
  }
  ~CapturedGraph() {
    cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void launch(const core::Stream& stream) const {
    core::check_cuda(cudaGraphLaunch(exec_, stream.get()), "launch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace lockstep::simulated_gpu
