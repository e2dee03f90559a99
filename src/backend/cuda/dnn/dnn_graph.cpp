// SPDX-License-Identifier: BSD-3-Clause
#include "dnn_graph.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

/// Returns the graph with the execution plan that an earlier run stored in the cache; null if there
/// is none.
ChosenEngine remembered_engine(const OperationGraph& operations, const EngineCache& cache,
                               const std::string& key) {
  const auto engine = cache.find(key);
  const auto plan = engine ? cache.find_plan(key, engine->name) : std::nullopt;
  if (!plan) return {};
  return {.graph = operations.restored(*plan, engine->name), .seconds = engine->seconds};
}

}  // namespace

DnnGraph::DnnGraph(std::string key, ChosenEngine chosen)
    : key_(std::move(key)),
      chosen_(std::move(chosen)),
      name_(chosen_.graph->facts(chosen_.engine).name),
      workspace_bytes_(chosen_.graph->workspace_bytes(chosen_.engine)) {}

void DnnGraph::run(std::span<const Binding> bindings, void* workspace) const {
  core::check(chosen_.graph != nullptr, "a graph of which only the sizes are known cannot run");
  if (const auto refusal = chosen_.graph->run(chosen_.engine, bindings, workspace))
    core::fail(core::ExitStatus::internal,
               fmt::format("cuDNN's engine {} failed for {}: {}", name_, key_, *refusal));
}

EngineRules DnnPlanner::rules_for(core::Precision precision) const {
  // The fast engines for float32 need more workspace than those that use tensor cores.
  constexpr std::size_t default_limit = EngineRules{}.workspace_limit;
  constexpr std::size_t limit_of_floats = 8 * default_limit;
  EngineRules rules = rules_;
  rules.true_fp32 = rules.true_fp32 || precision == core::Precision::fp32;
  const bool has_floats = activation_type(precision) == core::DataType::float32;
  if (has_floats && rules.workspace_limit == default_limit) rules.workspace_limit = limit_of_floats;
  return rules;
}

const PlannedGraph& DnnPlanner::plan(const GraphRecipe& recipe, core::Precision precision,
                                     GraphNature nature) {
  if (const auto found = planned_.find(recipe.key); found != planned_.end()) return found->second;
  return planned_.emplace(recipe.key, make(recipe, precision, nature)).first->second;
}

PlannedGraph DnnPlanner::make(const GraphRecipe& recipe, core::Precision precision,
                              GraphNature nature) {
  if (planning_ == Planning::sizes_only) return {std::make_shared<const DnnGraph>(recipe.key), {}};
  EngineRules rules = rules_for(precision);
  if (!nature.rounds_inside) rules.batch_norm_multiprocessors = 0;  // not a batch norm
  const core::DataType virtual_type =
      nature.rounds_inside ? activation_type(precision) : core::DataType::float32;
  const EngineSearch search{.target = target_,
                            .rules = rules,
                            .nature = nature,
                            .graph = recipe.key,
                            .cache_key = cache_key(target_.info(), rules, recipe.key),
                            .make = [&](const Target& target) {
                              auto graph = std::make_unique<OperationGraph>(target, virtual_type);
                              recipe.define(*graph);
                              if (rules.batch_norm_multiprocessors > 0)
                                graph->limit_multiprocessors(rules.batch_norm_multiprocessors);
                              return graph;
                            }};
  ChosenEngine chosen;
  if (is_timing()) {
    chosen = remembered_engine(*search.make(target_), cache_, search.cache_key);
    if (chosen.graph != nullptr)
      log_.write({.graph = recipe.key,
                  .engine = chosen.graph->facts(0).name,
                  .seconds = chosen.seconds,
                  .workspace_bytes = chosen.graph->workspace_bytes(0),
                  .is_chosen = true,
                  .is_cached = true});
  }
  if (chosen.graph == nullptr) chosen = choose_engine(search, cache_, log_);
  if (chosen.graph == nullptr) return {nullptr, std::move(chosen.refusal)};
  return {std::make_shared<const DnnGraph>(recipe.key, std::move(chosen)), {}};
}

double DnnPlanner::remembered_seconds(const std::string& what, core::Precision precision,
                                      const std::function<double()>& measure) {
  const std::string key = cache_key(target_.info(), rules_for(precision), what);
  if (const auto known = cache_.find(key)) return known->seconds;
  const double seconds = measure();
  if (seconds > 0) cache_.store(key, {.name = what, .seconds = seconds});
  return seconds;
}

core::DataType activation_type(core::Precision precision) {
  switch (precision) {
    case core::Precision::fp32:
    case core::Precision::tf32: return core::DataType::float32;
    case core::Precision::bf16: return core::DataType::bfloat16;
    case core::Precision::fp16: return core::DataType::float16;
  }
  return core::DataType::float32;
}

}  // namespace lockstep::backend::cuda
