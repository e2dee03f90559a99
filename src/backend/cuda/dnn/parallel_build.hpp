// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine_choice.hpp"

namespace lockstep::backend::cuda {

/// Result of building one engine on another thread.
struct BuiltEngine {
  std::string name;
  bool was_started = false;         ///< false: the time limit was reached before
  double seconds = 0;               ///< wall time of the build
  std::vector<std::uint8_t> bytes;  ///< serialised execution plan; empty: it could not be built
  std::string refusal;              ///< reason in one line if it could not be built
};

/// Builds engines of the graph that `search.make` creates, by name, in the given order, on
/// `search.rules.build_threads` threads, until the time limit of the rules is reached. Each thread
/// has its own graph and, if the GPU is present, its own cuDNN handle, because a handle must not be
/// used by several threads at a time. Returns one result per name, in the same order.
std::vector<BuiltEngine> build_in_parallel(const EngineSearch& search,
                                           const std::vector<std::string>& names);

}  // namespace lockstep::backend::cuda
