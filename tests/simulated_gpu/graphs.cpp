// SPDX-License-Identifier: BSD-3-Clause
// Replaces the functions of the CUDA runtime for stream capture and graphs.

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

/// Calls `visit` with a node after the nodes that it depends on, unless that was done before.
template <class Visit>
void visit_node(const std::vector<Node>& nodes, std::size_t index, std::vector<bool>& visited,
                const Visit& visit) {
  if (visited[index]) return;
  visited[index] = true;
  for (const std::size_t before : nodes[index].dependencies)
    visit_node(nodes, before, visited, visit);
  visit(nodes[index]);
}

ForkOrder fork_order = ForkOrder::late;

/// One execution of a graph.
class GraphRun {
 public:
  explicit GraphRun(const CUgraph_st& graph)
      : graph_(graph), executed_(graph.nodes.size()), visited_(graph.nodes.size()) {}

  /// Executes the nodes of the capturing stream as late as possible, and the others in the order
  /// that `set_fork_order` selects.
  void execute() {
    for (const std::size_t end : graph_.ends)
      visit_node(graph_.nodes, end, visited_, [&](const Node& node) {
        if (fork_order == ForkOrder::early) execute_ready_forks();
        execute_once(static_cast<std::size_t>(&node - graph_.nodes.data()));
      });
  }

 private:
  void execute_once(std::size_t index) {
    if (executed_[index]) return;
    executed_[index] = true;
    if (!is_stopped()) run_task(graph_.nodes[index].task);
  }

  /// Dependencies have smaller indices than their dependants, so one pass finds all ready nodes.
  void execute_ready_forks() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const auto is_executed = [&](std::size_t before) { return executed_[before]; };
      if (node.is_forked && std::ranges::all_of(node.dependencies, is_executed)) execute_once(i);
    }
  }

  const CUgraph_st& graph_;
  std::vector<bool> executed_, visited_;
};

void require_joined(const Capture& capture, const std::vector<std::size_t>& ends) {
  std::vector<bool> reached(capture.nodes.size());
  for (const std::size_t end : ends) visit_node(capture.nodes, end, reached, [](const Node&) {});
  const auto missing = std::ranges::count(reached, false);
  if (missing > 0)
    violation("fork that is not joined",
              fmt::format("the capturing stream does not depend on {} captured tasks", missing));
}

std::set<std::uint64_t> used_allocations(const std::vector<Node>& nodes) {
  std::set<std::uint64_t> ids;
  for (const Node& node : nodes) {
    for (const auto* accesses : {&node.task.reads, &node.task.writes}) {
      for (const Access& access : *accesses)
        if (const Allocation* found = find_allocation(access.data)) ids.insert(found->id);
    }
  }
  return ids;
}

}  // namespace

void set_fork_order(ForkOrder order) { fork_order = order; }

std::uint64_t& current_launch() {
  static std::uint64_t number = 0;
  return number;
}

std::set<const CUgraph_st*>& executable_graphs() {
  static std::set<const CUgraph_st*> all;
  return all;
}

}  // namespace lockstep::simulated_gpu

using namespace lockstep::simulated_gpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (is_default(stream) || stream->capture != nullptr) {
    violation("capture-unsafe call", "cudaStreamBeginCapture of a stream that cannot be captured");
    return cudaErrorIllegalState;
  }
  stream->capture = std::make_shared<Capture>(Capture{.origin = stream, .nodes = {}});
  stream->captured.clear();
  ++open_captures();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr || capture->origin != stream) {
    violation("fork that is not joined", "cudaStreamEndCapture of another stream than the first");
    return cudaErrorStreamCaptureUnmatched;
  }
  // A capture that ends because of an error is dropped.
  if (std::current_exception() == nullptr) {
    require_joined(*capture, stream->captured);
    require_no_race(*capture);
  }
  *graph = new CUgraph_st{capture->nodes, stream->captured, used_allocations(capture->nodes),
                          device_allocations()};
  ++mutable_objects().graphs;
  for (const cudaStream_t one : streams()) {
    if (one->capture == capture) one->capture = nullptr;
  }
  capture->is_open = false;
  capture->nodes.clear();
  --open_captures();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  const bool has_priorities =
      std::ranges::any_of(graph->nodes, [](const Node& node) { return node.priority != 0; });
  if (has_priorities && (flags & cudaGraphInstantiateFlagUseNodePriority) == 0)
    violation("priorities of captured work", "the graph ignores the priorities of its nodes");
  if (allocation_fails()) return cudaErrorMemoryAllocation;
  *exec = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)};
  executable_graphs().insert((*exec)->graph.get());
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  require_no_capture("cudaGraphUpload");
  if (allocation_fails()) return cudaErrorMemoryAllocation;
  exec->is_uploaded = true;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  static std::uint64_t launches = 0;
  if (!exec->is_uploaded && allocation_fails()) return cudaErrorMemoryAllocation;
  exec->is_uploaded = true;
  ++mutable_counters().graph_launches;
  const auto existing = device_allocations();
  if (!std::ranges::includes(existing, exec->graph->existing))
    violation("memory freed before the graph that uses it",
              "a graph is launched after memory was freed that existed at its capture");
  for (const Node& node : exec->graph->nodes) {
    count(node.task, mutable_counters().in_graphs);
    if (node.task.event != nullptr) ++node.task.event->pending;
  }
  enqueue(stream, {.run =
                       [graph = exec->graph, launch = ++launches] {
                         current_launch() = launch;
                         GraphRun(*graph).execute();
                         current_launch() = 0;
                       },
                   .graph = exec->graph});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  --mutable_objects().graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  executable_graphs().erase(exec->graph.get());
  delete exec;
  return cudaSuccess;
}

}  // extern "C"
