#include "engine_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "engine_trial.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::backend::cuda {
namespace {

// Limit on the number of engines per graph that are built and timed. The heuristics return the best
// ones first.
constexpr std::size_t most_timed = 16;
// Limit on the time to build them, in seconds. A single runtime-compiled engine can use it up.
constexpr double seconds_to_build = 1.0;

/// Returns the engines that satisfy the rules, in the order in which to try them.
std::vector<std::size_t> allowed(const OperationGraph& graph, const EngineRules& rules,
                                 const GraphNature& nature, std::string& refusal) {
  std::vector<std::size_t> engines;
  std::vector<bool> on_tensor_cores;
  for (std::size_t i = 0; i < graph.engines(); ++i) {
    const EngineFacts facts = graph.facts(i);
    on_tensor_cores.push_back(facts.tensor_core);
    if (const auto broken = broken_rule(facts, rules, nature); broken.empty())
      engines.push_back(i);
    else
      refusal = fmt::format("{} {}", facts.name, broken);
  }
  // The first choice of the heuristics can be a slow engine that does not use tensor cores.
  if (nature.has_products && !rules.true_fp32)
    std::stable_partition(engines.begin(), engines.end(),
                          [&](std::size_t i) { return on_tensor_cores[i]; });
  return engines;
}

std::optional<std::size_t> build_first(OperationGraph& graph,
                                       const std::vector<std::size_t>& engines,
                                       const EngineRules& rules, std::string& refusal) {
  for (const std::size_t i : engines) {
    const auto reason = graph.build(i, rules.workspace_limit);
    core::report_progress(rules.progress);
    if (!reason) return i;
    refusal = fmt::format("{}: {}", graph.facts(i).name, *reason);
  }
  return std::nullopt;
}

ChosenEngine choose_untimed(OperationGraph& graph, const EngineRules& rules,
                            const GraphNature& nature) {
  ChosenEngine chosen;
  // Query the fallback heuristics only if no engine of the first query can be used, because each
  // query takes time.
  for (const Heuristics heuristics : {Heuristics::best_first, Heuristics::fallback}) {
    const std::size_t known = graph.engines();
    if (const auto reason = graph.find_engines(heuristics)) chosen.refusal = *reason;
    auto engines = allowed(graph, rules, nature, chosen.refusal);
    std::erase_if(engines, [&](std::size_t i) { return i < known; });
    if (const auto engine = build_first(graph, engines, rules, chosen.refusal)) {
      chosen.found = true;
      chosen.engine = *engine;
      graph.keep_only(*engine);
      return chosen;
    }
  }
  return chosen;
}

/// Builds the engine of that name. Returns std::nullopt if this version of cuDNN does not return it
/// or cannot build it.
std::optional<std::size_t> build_named(OperationGraph& graph, const std::string& name,
                                       const EngineRules& rules) {
  for (std::size_t i = 0; i < graph.engines(); ++i)
    if (graph.facts(i).name == name && !graph.build(i, rules.workspace_limit)) return i;
  return std::nullopt;
}

std::vector<std::size_t> build_many(OperationGraph& graph, const std::vector<std::size_t>& engines,
                                    const EngineRules& rules, std::string& refusal) {
  std::vector<std::size_t> built;
  const auto begin = std::chrono::steady_clock::now();
  for (const std::size_t i : engines) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (built.size() == most_timed || (!built.empty() && taken.count() > seconds_to_build)) break;
    if (const auto reason = graph.build(i, rules.workspace_limit))
      refusal = fmt::format("{}: {}", graph.facts(i).name, *reason);
    else
      built.push_back(i);
    core::report_progress(rules.progress);
  }
  return built;
}

/// Stores the execution plan of an engine for later runs, if the plan restored from its serialised
/// form runs.
void remember_plan(const OperationGraph& graph, std::size_t engine, const EngineTrial& trial,
                   EngineCache& cache, const std::string& key) {
  if (!cache.is_on_disk()) return;
  const auto bytes = graph.serialise(engine);
  if (bytes.empty()) return;
  const auto copy = graph.restored(bytes, graph.facts(engine).name);
  if (copy != nullptr && trial.runs(*copy)) cache.store_plan(key, bytes);
}

/// Sets `engine` and `seconds` of `chosen` to the fastest engine; to the first engine and 0 if the
/// memory does not suffice for timing.
void time_engines(const OperationGraph& graph, const Target& target,
                  const std::vector<std::size_t>& built, const EngineRules& rules,
                  EngineCache& cache, const std::string& key, ChosenEngine& chosen) {
  chosen.engine = built.front();
  chosen.found = true;
  std::size_t workspace = 0;
  for (const std::size_t i : built) workspace = std::max(workspace, graph.workspace_bytes(i));
  try {
    const EngineTrial trial(target, graph, workspace);
    double best = std::numeric_limits<double>::infinity();
    for (const std::size_t i : built) {
      const double seconds = trial.seconds(i);
      core::report_progress(rules.progress);
      if (seconds < best) {
        best = seconds;
        chosen.engine = i;
        chosen.seconds = seconds;
      }
    }
    chosen.found = chosen.seconds > 0;
    if (chosen.found) remember_plan(graph, chosen.engine, trial, cache, key);
    if (!chosen.found) chosen.refusal = "every engine that cuDNN built fails when it runs";
  } catch (const core::Error& error) {
    if (error.status() != core::ExitStatus::out_of_memory) throw;
    core::log_warning("no memory is left for timing cuDNN's engines: its own first choice is used");
  }
}

ChosenEngine choose_timed(OperationGraph& graph, const Target& target, const EngineRules& rules,
                          const GraphNature& nature, EngineCache& cache, const std::string& key) {
  ChosenEngine chosen;
  for (const Heuristics heuristics : {Heuristics::best_first, Heuristics::fallback})
    if (const auto reason = graph.find_engines(heuristics)) chosen.refusal = *reason;
  if (const auto known = cache.find(key)) {
    if (const auto engine = build_named(graph, known->name, rules)) {
      graph.keep_only(*engine);
      return {true, *engine, known->seconds, {}};
    }
  }
  const auto built =
      build_many(graph, allowed(graph, rules, nature, chosen.refusal), rules, chosen.refusal);
  if (built.empty()) return chosen;
  time_engines(graph, target, built, rules, cache, key, chosen);
  if (!chosen.found) return chosen;
  graph.keep_only(chosen.engine);
  if (chosen.seconds > 0)
    cache.store(key, {graph.facts(chosen.engine).name, chosen.seconds,
                      graph.workspace_bytes(chosen.engine)});
  return chosen;
}

}  // namespace

std::string broken_rule(const EngineFacts& engine, const EngineRules& rules,
                        const GraphNature& nature) {
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
  return fmt::format("{} | sm {} x {} | cuDNN {} | driver {} | {} B{}{} | {}", device.name,
                     device.compute_capability, device.multiprocessors, cudnnGetVersion(), driver,
                     rules.workspace_limit, rules.deterministic ? " deterministic" : "",
                     rules.true_fp32 ? " true-fp32" : "", graph);
}

ChosenEngine choose_engine(OperationGraph& graph, const Target& target, const EngineRules& rules,
                           const GraphNature& nature, EngineCache& cache, const std::string& key) {
  // A choice by timing can differ between runs, and then the rounding differs.
  ChosenEngine chosen = target.is_present() && !rules.deterministic
                            ? choose_timed(graph, target, rules, nature, cache, key)
                            : choose_untimed(graph, rules, nature);
  if (!chosen.found && chosen.refusal.empty()) chosen.refusal = "cuDNN names no engine";
  return chosen;
}

}  // namespace lockstep::backend::cuda
