// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/backend/device.hpp"
#include "lockstep/core/progress.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// Constraints on the selection of an engine.
struct EngineRules {
  std::size_t workspace_limit = std::size_t{64} << 20;  ///< bytes
  bool deterministic = false;  ///< results are bitwise reproducible from run to run
  bool true_fp32 = false;      ///< float32 operands of products are not rounded to tf32 or less
  core::ProgressMonitor* progress = nullptr;  ///< notified after each engine that is built or timed
  EngineSelection selection = EngineSelection::timed;
  int build_threads = 1;  ///< host threads that build engines compiled at run time (>= 1)
  /// Limit on the time to build the runtime-compiled engines of one graph, in seconds. The engines
  /// of several graphs are built together, in the sum of their times. A build that has started is
  /// completed. With 8 threads, 3 s are estimated to suffice for most of the 29 to 36 engines of a
  /// batch norm (0.5 to 1 s of processor time each).
  double build_seconds = 3.0;
  /// Limit on the total time to build and time engines (`SelectionTime`), in seconds; 0: none.
  double total_seconds = 0;
  /// Multiprocessors that cuDNN's batch norm uses, so that a kernel of NCCL that runs at the same
  /// time finds free ones; 0: all.
  int batch_norm_multiprocessors = 0;
};

/// Returns whether engines are selected by timing. A choice by timing can differ between runs, and
/// then the rounding differs.
bool selects_by_timing(const Target& target, const EngineRules& rules);

/// Properties of a graph that the rules depend on.
struct GraphNature {
  bool has_products = false;  ///< convolutions: tensor cores affect speed and rounding
  /// The graph contains reductions fused with preceding operations. Runtime-compiled engines
  /// compute them with atomic additions in varying order, but do not have cuDNN's note
  /// NONDETERMINISTIC.
  bool has_fused_sums = false;
  /// The program has another implementation of the operations, which it uses if the time limit is
  /// reached before an engine is built.
  bool has_alternative = false;
  /// Virtual tensors (those inside the graph) have the data type of the feature maps, as cuDNN's
  /// batch-norm engines require. Otherwise they are float32.
  bool rounds_inside = false;
};

/// Returns the rule that the engine violates, as the end of an error message; empty if it satisfies
/// all rules.
std::string broken_rule(const EngineFacts& engine, const EngineRules& rules,
                        const GraphNature& nature);

/// Returns the key of an engine in the cache; it contains everything that the selection depends on.
std::string cache_key(const DeviceInfo& device, const EngineRules& rules, std::string_view graph);

}  // namespace lockstep::backend::cuda
