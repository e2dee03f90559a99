// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "engine_cache.hpp"
#include "engine_log.hpp"
#include "engine_search.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

struct ChosenEngine {
  std::unique_ptr<const OperationGraph> graph;  ///< with the built engine; null: none was found
  std::size_t engine = 0;                       ///< all other engines of the graph are released
  double seconds = 0;        ///< execution time, measured now or cached; 0: not timed
  std::string refusal = {};  ///< one-line reason if no engine was found
  bool is_cut_off = false;   ///< the deadline was reached before all engines were timed
};

/// Selects an engine for a graph.
/// - By timing (`selects_by_timing`): the fastest engine that satisfies the rules and whose outputs
///   agree with those of most engines (`EngineTrial`), from `cache` or by measurement. All
///   precompiled engines are candidates, and the runtime-compiled engines that can be built within
///   the limit, in the order of cuDNN's heuristics. If the deadline is reached before, the fastest
///   of the timed engines, or the first engine that was built, is selected and not cached.
/// - Otherwise: the first engine in this order that satisfies the rules and can be built; engines
///   that use tensor cores come first if the rules allow their rounding.
ChosenEngine choose_engine(const EngineSearch& search, EngineCache& cache, EngineLog& log);

}  // namespace lockstep::backend::cuda
