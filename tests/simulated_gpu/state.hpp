#pragma once

// Types and functions that the files of the simulated CUDA runtime share.

#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "runtime.hpp"

namespace lockstep::simulated_gpu {

/// A task of a graph, and the indices of the nodes that it depends on.
struct Node {
  Task task;
  std::vector<std::size_t> dependencies;
};

/// The stream capture that creates a graph.
struct Capture {
  std::vector<Node> nodes;
};

/// The state of an event. Queued work keeps it alive if the program destroys the event.
struct EventState {
  cudaStream_t stream = nullptr;      ///< of the last record outside a capture
  std::uint64_t position = 0;         ///< in the stream: complete when this many tasks are done
  std::shared_ptr<Capture> capture;   ///< that contains the last record; null outside a capture
  std::vector<std::size_t> captured;  ///< the nodes before the record in the capture
  std::chrono::steady_clock::time_point time;
  bool has_time = false;
};

/// Streams that were created and not destroyed.
std::set<cudaStream_t>& streams();

/// Returns whether the handle denotes a default stream. The simulated default streams execute work
/// immediately.
bool is_default(cudaStream_t stream);

/// Executes the first tasks of the stream until `position` tasks are done.
void run_until(cudaStream_t stream, std::uint64_t position);

/// Executes all queued work of all streams.
void run_all();

/// Adds `task` to `work`.
void count(const Task& task, WorkCounters& work);

/// The counters that `counters` returns.
Counters& mutable_counters();

}  // namespace lockstep::simulated_gpu

// The types behind the opaque handles of the runtime.
struct CUstream_st {
  std::deque<lockstep::simulated_gpu::Task> queue;
  std::uint64_t queued = 0, done = 0;  ///< numbers of tasks
  std::shared_ptr<lockstep::simulated_gpu::Capture> capture;
  std::vector<std::size_t> captured;  ///< the nodes that the next captured node depends on
};
struct CUevent_st {
  std::shared_ptr<lockstep::simulated_gpu::EventState> state;
};
struct CUgraph_st {
  std::vector<lockstep::simulated_gpu::Node> nodes;
  std::vector<std::size_t> ends;  ///< the nodes after which all nodes are done
};
struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};
