// SPDX-License-Identifier: BSD-3-Clause
#include "engine_search.hpp"

namespace lockstep::backend::cuda {

BuildRequest build_request(const EngineSearch& search, const std::optional<CachedEngine>& known) {
  const auto expected = [&]() -> std::size_t {  // cuDNN 9.19 on Hopper
    if (known) return 1;
    if (search.nature.rounds_inside) return 30;
    return search.nature.has_fused_sums ? 5 : 1;
  };
  return {.make = search.make,
          .wants =
              [rules = search.rules, nature = search.nature, faulty = search.faulty,
               known](const EngineFacts& facts) {
                if (known && facts.name != known->name) return false;
                if (faulty.contains(facts.name)) return false;
                return facts.runtime_compiled && broken_rule(facts, rules, nature).empty();
              },
          .workspace_limit = search.rules.workspace_limit,
          .expected_engines = expected(),
          .is_required = search.rules.total_seconds <= 0 || !search.nature.has_alternative};
}

}  // namespace lockstep::backend::cuda
