#pragma once

#include <cstddef>
#include <string>

#include "engine_cache.hpp"
#include "lockstep/core/progress.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// What an engine must keep to.
struct EngineRules {
  std::size_t workspace_limit = std::size_t{64} << 20;  ///< bytes
  bool deterministic = false;  ///< the same bits from the same inputs, run after run
  bool true_fp32 = false;      ///< products of float32 are not rounded to tf32 or less
  core::ProgressMonitor* progress = nullptr;  ///< informed of each engine that is built or timed
};

/// What a graph consists of, as far as the rules ask.
struct GraphNature {
  bool has_products = false;  ///< convolutions: tensor cores matter, in speed and in rounding
  /// Reductions fused behind other operations. Engines compiled at run time sum them with atomics,
  /// in no fixed order, and do not carry the note that says so.
  bool has_fused_sums = false;
  /// What stays inside has the type of the maps, which batch norm's kernels ask for; otherwise it
  /// is float32.
  bool rounds_inside = false;
};

/// Empty where the engine keeps the rules, else which it breaks.
std::string broken_rule(const EngineFacts& engine, const EngineRules& rules,
                        const GraphNature& nature);

/// Under which an engine is remembered: what the answer depends on.
std::string cache_key(const DeviceInfo& device, const EngineRules& rules, std::string_view graph);

struct ChosenEngine {
  bool found = false;
  std::size_t engine = 0;  ///< built; the others of the graph are released
  double seconds = 0;      ///< measured, now or when it was remembered; 0 where nothing was timed
  std::string refusal;     ///< where none was found: one line of why
};

/// Chooses among the engines of a sealed graph. On a GPU that is present: the fastest of those that
/// keep the rules, as remembered in `cache` or timed now. On one that is only described, and where
/// runs are to be repeatable: the first in cuDNN's own order that keeps the rules and builds, those
/// on tensor cores before others where rounding allows them. `key`: from `cache_key`.
ChosenEngine choose_engine(OperationGraph& graph, const Target& target, const EngineRules& rules,
                           const GraphNature& nature, EngineCache& cache, const std::string& key);

}  // namespace lockstep::backend::cuda
