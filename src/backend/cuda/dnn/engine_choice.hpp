#pragma once

#include <cstddef>
#include <string>

#include "engine_cache.hpp"
#include "lockstep/core/progress.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// Constraints on the selection of an engine.
struct EngineRules {
  std::size_t workspace_limit = std::size_t{64} << 20;  ///< bytes
  bool deterministic = false;  ///< results are bitwise reproducible from run to run
  bool true_fp32 = false;      ///< float32 operands of products are not rounded to tf32 or less
  core::ProgressMonitor* progress = nullptr;  ///< notified after each engine that is built or timed
};

/// Properties of a graph that the rules depend on.
struct GraphNature {
  bool has_products = false;  ///< convolutions: tensor cores affect speed and rounding
  /// The graph contains reductions fused with preceding operations. Runtime-compiled engines
  /// compute them with atomic additions in varying order, but do not have cuDNN's note
  /// NONDETERMINISTIC.
  bool has_fused_sums = false;
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

struct ChosenEngine {
  bool found = false;
  std::size_t engine = 0;  ///< already built; all other engines of the graph are released
  double seconds = 0;      ///< execution time, measured now or cached; 0: not timed
  std::string refusal;     ///< one-line reason if no engine was found
};

/// Selects an engine for a sealed graph. If the GPU is present and runs need not be deterministic,
/// selects the fastest engine that satisfies the rules, from `cache` or by timing. Otherwise
/// selects the first engine in the order of cuDNN's heuristics that satisfies the rules and can be
/// built; engines that use tensor cores come first if the rules allow their rounding. `key`: from
/// `cache_key`.
ChosenEngine choose_engine(OperationGraph& graph, const Target& target, const EngineRules& rules,
                           const GraphNature& nature, EngineCache& cache, const std::string& key);

}  // namespace lockstep::backend::cuda
