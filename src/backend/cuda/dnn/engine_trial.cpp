// SPDX-License-Identifier: BSD-3-Clause
#include "engine_trial.hpp"

namespace lockstep::backend::cuda {

namespace {

std::size_t tensor_bytes(const OperationGraph& graph) {
  std::size_t bytes = 0;
  for (const auto& port : graph.ports()) bytes += port.bytes;
  return bytes;
}

}  // namespace

bool EngineTrial::fits(const Target& target, const OperationGraph& graph,
                       std::size_t workspace_bytes) {
  return KernelStopwatch::fits(target, workspace_bytes + tensor_bytes(graph));
}

EngineTrial::EngineTrial(const Target& target, const OperationGraph& graph,
                         std::size_t workspace_bytes)
    : target_(target),
      stopwatch_(target),
      workspace_(core::device_buffer(workspace_bytes, "the workspace of engines under test")) {
  for (const auto& port : graph.ports()) {
    tensors_.push_back(random_buffer(port.bytes, port.type));
    bindings_.push_back({port.uid, tensors_.back().data()});
  }
}

double EngineTrial::seconds(const OperationGraph& graph, std::size_t engine) const {
  return stopwatch_.seconds(tensor_bytes(graph), [&] {
    return !graph.run(engine, bindings_, workspace_.data()).has_value();
  });
}

bool EngineTrial::runs(const OperationGraph& restored) const {
  if (restored.run(0, bindings_, workspace_.data())) return false;
  core::check_cuda(cudaStreamSynchronize(target_.stream()), "trying a restored engine");
  return true;
}

}  // namespace lockstep::backend::cuda
