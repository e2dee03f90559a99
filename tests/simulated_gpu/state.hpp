// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Types and functions that the files of the simulated CUDA runtime share.

#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime.hpp"

namespace lockstep::simulated_gpu {

/// A task of a graph, and the indices of the nodes that it depends on.
struct Node {
  Task task;
  std::vector<std::size_t> dependencies = {};
  int priority = 0;        ///< of the captured stream
  bool is_forked = false;  ///< captured on another stream than the first
};

/// The stream capture that creates a graph.
struct Capture {
  cudaStream_t origin = nullptr;
  std::vector<Node> nodes = {};
  bool is_open = true;
};

/// The state of an event. Queued work keeps it alive if the program destroys the event.
struct EventState {
  cudaStream_t stream = nullptr;      ///< of the last record outside a capture
  std::uint64_t position = 0;         ///< in the stream: complete when this many tasks are done
  std::shared_ptr<Capture> capture;   ///< that contains the last record; null outside a capture
  std::vector<std::size_t> captured;  ///< the nodes before the record in the capture
  std::chrono::steady_clock::time_point time;
  bool has_timing = false;   ///< created with timing
  bool has_time = false;     ///< recorded at least once
  int pending = 0;           ///< queued records that are not executed yet
  std::uint64_t order = 0;   ///< of the last executed record among all records
  std::uint64_t launch = 0;  ///< the launch of the graph that contains it; 0 outside graphs
};

/// Streams that were created and not destroyed.
std::set<cudaStream_t>& streams();

/// Returns whether the handle denotes a default stream. The simulated default streams execute work
/// immediately.
bool is_default(cudaStream_t stream);

/// Executes the first tasks of the stream until `position` tasks are done, or until a communicator
/// of NCCL fails, which stops the device until it is aborted.
void run_until(cudaStream_t stream, std::uint64_t position);

/// The same, and waits for the abort of a communicator that has failed. Reports a violation after
/// 20 s.
void finish(cudaStream_t stream, std::uint64_t position);

/// Executes all queued work of all streams.
void run_all();

/// Executes a task that is at the head of a stream or of a graph.
void run_task(const Task& task);

/// Waits at most 20 s until `holds()` is true, and returns whether it is.
bool wait_until(const std::function<bool()>& holds);

/// Returns whether a communicator has failed and is not aborted yet.
bool is_stopped();
/// Sets the function that `is_stopped` calls.
void set_stopped(std::function<bool()> is_stopped);

/// Whether a kernel has failed: the host learns of it when it next waits for a stream.
bool& has_failed_kernel();

/// Number of open captures.
int& open_captures();

/// Number of the launch whose graph is being executed; 0 outside graphs.
std::uint64_t& current_launch();

/// Executable graphs that exist.
std::set<const CUgraph_st*>& executable_graphs();

/// Numbers of events and graphs that exist.
Objects& mutable_objects();

struct Allocation {
  std::uintptr_t begin;
  std::size_t bytes;
  Access::In in;
  std::uint64_t id;
};
/// Returns the allocation that contains `at`; null if there is none.
const Allocation* find_allocation(const void* at);
/// Returns the ids of all allocations of device memory.
std::set<std::uint64_t> device_allocations();

enum class TaskState { queued, captured };
/// Reports a violation if memory that the task uses is not allocated, or is pageable host memory in
/// a capture.
void require_memory(const Task& task, TaskState state);

/// Returns whether two accesses have a byte in common.
bool overlap(const Access& a, const Access& b);

/// Reports a violation if two nodes of a capture use the same memory, at least one of them writes
/// to it, and no dependency determines which of them is executed first. Of kernels only the first
/// bytes of their arguments are known, so they are compared with the tensors of cuDNN only.
void require_no_race(const Capture& capture);

/// Fills the host memory to which `task` copies, so that the program cannot mistake an earlier
/// value for the result: with 0xff, which is NaN in every floating-point type. Does not fill memory
/// that queued work still reads.
void poison_results(const Task& task);

/// Adds `task` to `work`.
void count(const Task& task, WorkCounters& work);

/// The counters that `counters` returns.
Counters& mutable_counters();

}  // namespace lockstep::simulated_gpu

// The types behind the opaque handles of the runtime.
struct CUstream_st {
  std::deque<lockstep::simulated_gpu::Task> queue;
  std::uint64_t queued = 0, done = 0;  ///< numbers of tasks
  int priority = 0;
  std::shared_ptr<lockstep::simulated_gpu::Capture> capture;
  std::vector<std::size_t> captured;  ///< the nodes that the next captured node depends on
};
struct CUevent_st {
  std::shared_ptr<lockstep::simulated_gpu::EventState> state;
};
struct CUgraph_st {
  std::vector<lockstep::simulated_gpu::Node> nodes;
  std::vector<std::size_t> ends;     ///< the nodes after which all nodes are done
  std::set<std::uint64_t> used;      ///< ids of the allocations that the nodes use
  std::set<std::uint64_t> existing;  ///< ids of all allocations when the capture ended
};
struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
  bool is_uploaded = false;  ///< to the device, which allocates memory
};
