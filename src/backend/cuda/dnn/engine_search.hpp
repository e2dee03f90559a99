// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "engine_cache.hpp"
#include "engine_pool.hpp"
#include "engine_rules.hpp"

namespace lockstep::backend::cuda {

/// A graph for which an engine is to be selected.
struct EngineSearch {
  const Target& target;
  EngineRules rules;
  GraphNature nature;
  std::string graph;      ///< name of the graph in the engine log
  std::string cache_key;  ///< from `cache_key`
  MakeGraph make;
  std::set<std::string> faulty;  ///< engines that may not run, see `EngineCache::faulty`
  EnginePool& pool;
  const BuiltGraph* built = nullptr;  ///< engines that were built before; null: none
  /// No further engine is built or timed after this time if one was built.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

/// Returns a request for the runtime-compiled engines of the graph that satisfy the rules; only for
/// `known` if the cache names this engine.
BuildRequest build_request(const EngineSearch& search, const std::optional<CachedEngine>& known);

}  // namespace lockstep::backend::cuda
