// SPDX-License-Identifier: BSD-3-Clause
#include "engine_rules.hpp"

#include <cudnn.h>
#include <fmt/format.h>

namespace lockstep::backend::cuda {

bool selects_by_timing(const Target& target, const EngineRules& rules) {
  return target.is_present() && !rules.deterministic && rules.selection == EngineSelection::timed;
}

std::string broken_rule(const EngineFacts& engine, const EngineRules& rules,
                        const GraphNature& nature) {
  if (rules.selection == EngineSelection::quick && engine.runtime_compiled)
    return "is compiled at run time, which --engines quick excludes";
  if (rules.deterministic && engine.nondeterministic) return "is not deterministic";
  if (rules.deterministic && nature.has_fused_sums && engine.runtime_compiled)
    return "sums with atomics, in no fixed order";
  if (rules.true_fp32 && nature.has_products && (engine.tensor_core || engine.down_converts))
    return "rounds its inputs to less than fp32";
  return {};
}

std::string cache_key(const DeviceInfo& device, const EngineRules& rules, std::string_view graph) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) static_cast<void>(cudaGetLastError());
  return fmt::format("{} | sm {} x {} | cuDNN {} | driver {} | {} B{}{}{} | {}", device.name,
                     device.compute_capability, device.multiprocessors, cudnnGetVersion(), driver,
                     rules.workspace_limit, rules.deterministic ? " deterministic" : "",
                     rules.true_fp32 ? " true-fp32" : "",
                     rules.batch_norm_multiprocessors > 0
                         ? fmt::format(" batch-norm-sms{}", rules.batch_norm_multiprocessors)
                         : "",
                     graph);
}

}  // namespace lockstep::backend::cuda
