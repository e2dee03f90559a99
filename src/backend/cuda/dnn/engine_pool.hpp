// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/core/progress.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// Creates a graph for a target with all its operations, not yet sealed. Must support calls from
/// several threads.
using MakeGraph = std::function<std::unique_ptr<OperationGraph>(const Target&)>;

/// A graph of which engines are to be built.
struct BuildRequest {
  MakeGraph make;
  /// Returns whether an engine is to be built. Must support calls from several threads.
  std::function<bool(const EngineFacts&)> wants;
  std::size_t workspace_limit = 0;   ///< bytes
  std::size_t expected_engines = 1;  ///< estimate; graphs with more engines are built first
  bool is_required = true;           ///< also after the time limit, until one engine is built
};

/// Result of building one engine on another thread.
struct BuiltEngine {
  std::string name;
  bool was_started = false;              ///< false: the time limit was reached before
  double seconds = 0;                    ///< wall time of the build
  std::vector<std::uint8_t> bytes = {};  ///< serialised execution plan; empty: it was not built
  std::string refusal = {};              ///< reason in one line if it could not be built
};

/// The engines of one graph, in the order of cuDNN's heuristics.
struct BuiltGraph {
  bool is_listed = false;  ///< false: no thread could list the engines
  std::vector<BuiltEngine> engines = {};

  const BuiltEngine* find(const std::string& name) const;
};

/// Time limits of a build. A build that has started is completed.
struct BuildLimits {
  using Clock = std::chrono::steady_clock;

  /// No further engine of a graph is started if one of its engines was built or if it is not
  /// required.
  Clock::time_point deadline = Clock::time_point::max();
};

/// Threads that build engines of many graphs. Each thread has its own cuDNN handle if the GPU is
/// present, because a handle must not be used by several threads at a time. The handles remain open
/// for further builds until `close`. The target must outlive the pool.
class EnginePool {
 public:
  /// `threads`: >= 1. `progress`: notified after each engine; may be null.
  EnginePool(const Target& target, int threads, core::ProgressMonitor* progress)
      : target_(target), threads_(threads), progress_(progress) {}

  /// Builds the engines that the requests want, in two rounds: the first 8 engines of all graphs,
  /// in the order of cuDNN's heuristics, then the others. Each thread completes a round of its
  /// graph before it takes another one, because each thread has to create the graph again; threads
  /// without a graph help others. Returns one result per request, in the same order.
  std::vector<BuiltGraph> build(const std::vector<BuildRequest>& requests,
                                const BuildLimits& limits);

  /// Destroys the handles and releases their memory.
  void close() { siblings_.clear(); }

 private:
  const Target& target_;
  int threads_;
  core::ProgressMonitor* progress_;
  std::vector<std::unique_ptr<Target>> siblings_;  ///< by thread; null: not open
};

}  // namespace lockstep::backend::cuda
