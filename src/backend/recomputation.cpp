// SPDX-License-Identifier: BSD-3-Clause
#include "recomputation.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace lockstep::backend {

namespace {

/// Returns the lifetime of an output: in two periods if it is recomputed, otherwise in one.
Lifetime lifetime_of(const StepOutput& output, bool is_recomputed) {
  Lifetime lifetime = output.lifetime;
  if (!lifetime.again || is_recomputed) return lifetime;
  lifetime.last = std::max(lifetime.last, lifetime.again->last);
  lifetime.again.reset();
  return lifetime;
}

bool has_gap(const Lifetime& lifetime) {
  return lifetime.again && lifetime.again->first > lifetime.last + 1;
}

/// Returns, by step, the outputs that can be recomputed from inputs that are alive in any case:
/// that are preserved for other operations.
std::vector<bool> candidates_of(std::span<const StepOutput> outputs) {
  std::vector<bool> are_candidates;
  for (const StepOutput& output : outputs) {
    const auto is_alive = [&](int input) {
      const auto at = static_cast<std::size_t>(input);
      const std::optional<Period>& used = outputs[at].lifetime.again;
      return !are_candidates[at] && used && used->last >= output.lifetime.again->first;
    };
    are_candidates.push_back(output.can_recompute && has_gap(output.lifetime) &&
                             std::ranges::all_of(output.inputs, is_alive));
  }
  return are_candidates;
}

/// Returns the steps that are set, those first whose computation reads and writes most.
std::vector<std::size_t> by_cost(std::span<const StepOutput> outputs,
                                 const std::vector<bool>& set) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (set[i]) steps.push_back(i);
  std::ranges::stable_sort(steps, std::greater(), [&](std::size_t i) {
    return outputs[i].lifetime.bytes * (outputs[i].inputs.size() + 1);
  });
  return steps;
}

}  // namespace

void choose_recomputed(std::span<StepOutput> outputs, std::span<const Lifetime> others) {
  const std::vector<bool> candidates = candidates_of(outputs);
  std::vector<Lifetime> lifetimes;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    lifetimes.push_back(lifetime_of(outputs[i], candidates[i]));
  lifetimes.insert(lifetimes.end(), others.begin(), others.end());
  const std::size_t peak = peak_bytes(lifetimes);
  for (const std::size_t candidate : by_cost(outputs, candidates)) {
    lifetimes[candidate] = lifetime_of(outputs[candidate], false);
    if (peak_bytes(lifetimes) > peak) lifetimes[candidate] = outputs[candidate].lifetime;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].lifetime = lifetimes[i];
}

}  // namespace lockstep::backend
