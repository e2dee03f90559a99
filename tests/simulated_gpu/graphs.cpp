// Replaces the functions of the CUDA runtime for stream capture and graphs.

#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

int executable_graphs = 0;

/// Executes a node after the nodes that it depends on, unless it is done.
void run_node(const CUgraph_st& graph, std::size_t index, std::vector<bool>& done) {
  if (done[index]) return;
  done[index] = true;
  for (const std::size_t before : graph.nodes[index].dependencies) run_node(graph, before, done);
  graph.nodes[index].task.run();
}

}  // namespace

int count_executable_graphs() { return executable_graphs; }

}  // namespace lockstep::simulated_gpu

using namespace lockstep::simulated_gpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->capture = std::make_shared<Capture>();
  stream->captured.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::shared_ptr<Capture> capture = stream->capture;
  *graph = new CUgraph_st{capture->nodes, stream->captured};
  for (const cudaStream_t one : streams()) {
    if (one->capture == capture) one->capture = nullptr;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)};
  ++executable_graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  ++mutable_counters().graph_launches;
  for (const Node& node : exec->graph->nodes) count(node.task, mutable_counters().in_graphs);
  enqueue(stream, {WorkKind::other, [graph = exec->graph] {
                     // Each node as late as possible: those of other streams only when a node of
                     // the capturing stream depends on them.
                     std::vector<bool> done(graph->nodes.size());
                     for (const std::size_t end : graph->ends) run_node(*graph, end, done);
                   }});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  --executable_graphs;
  return cudaSuccess;
}

}  // extern "C"
