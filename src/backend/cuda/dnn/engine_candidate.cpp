// SPDX-License-Identifier: BSD-3-Clause
#include "engine_candidate.hpp"

namespace lockstep::backend::cuda {

EngineCandidate make_candidate(const EngineSearch& search, const OperationGraph& graph,
                               std::size_t index) {
  EngineCandidate candidate{.index = index, .facts = graph.facts(index), .record = {}};
  const EngineFacts& facts = candidate.facts;
  candidate.record = {.graph = search.graph,
                      .engine = facts.name,
                      .kind = facts.runtime_compiled ? "runtime_compiled" : "precompiled",
                      .narrow_sums = facts.narrow_sums,
                      .refusal = broken_rule(facts, search.rules, search.nature)};
  if (candidate.record.refusal.empty() && search.faulty.contains(facts.name))
    candidate.record.refusal = "failed on this type of GPU in an earlier run";
  return candidate;
}

}  // namespace lockstep::backend::cuda
