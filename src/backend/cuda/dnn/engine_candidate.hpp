// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine_log.hpp"
#include "engine_search.hpp"
#include "engine_trial.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// Why a candidate was not tried.
namespace refusal {
inline constexpr const char* not_built =
    "not built: the time limit of run-time compilation was reached";
inline constexpr const char* not_built_in_time = "not built: --engine-seconds was reached";
inline constexpr const char* not_timed = "not timed: --engine-seconds was reached";
}  // namespace refusal

/// An engine of a graph during the selection.
struct EngineCandidate {
  std::size_t index = 0;  ///< in the graph of the selection
  EngineFacts facts;
  CandidateRecord record;
  /// Engines that the pool built are restored from `bytes` to their own graph, as its engine 0;
  /// null: the engine is in the graph of the selection.
  std::unique_ptr<OperationGraph> restored = nullptr;
  std::vector<std::uint8_t> bytes = {};
  bool is_built = false;
  std::size_t group = 0;  ///< of engines with the same outputs, if it was run

  /// Returns the execution time in seconds; `EngineTrial::failed` if it was not timed.
  double seconds() const { return record.seconds.value_or(EngineTrial::failed); }
};

/// Returns the engine with this index in the graph, refused if it breaks a rule of the search or is
/// faulty; the refusal is the end of a sentence that begins with the name of the engine.
EngineCandidate make_candidate(const EngineSearch& search, const OperationGraph& graph,
                               std::size_t index);

}  // namespace lockstep::backend::cuda
