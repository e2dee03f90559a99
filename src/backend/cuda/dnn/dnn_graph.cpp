// SPDX-License-Identifier: BSD-3-Clause
#include "dnn_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

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

/// Returns a function that creates the graph. It owns what it needs.
MakeGraph make_graph(const GraphRequest& request, const EngineRules& rules) {
  const core::DataType virtual_type =
      request.nature.rounds_inside ? activation_type(request.precision) : core::DataType::float32;
  return [define = request.recipe.define, virtual_type,
          multiprocessors = rules.batch_norm_multiprocessors](const Target& target) {
    auto graph = std::make_unique<OperationGraph>(target, virtual_type);
    define(*graph);
    if (multiprocessors > 0) graph->limit_multiprocessors(multiprocessors);
    return graph;
  };
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

EngineRules DnnPlanner::rules_for(core::Precision precision, const GraphNature& nature) const {
  EngineRules rules = rules_for(precision);
  if (!nature.rounds_inside) rules.batch_norm_multiprocessors = 0;  // not a batch norm
  return rules;
}

const PlannedGraph& DnnPlanner::plan(const GraphRecipe& recipe, core::Precision precision,
                                     GraphNature nature) {
  if (const auto found = planned_.find(recipe.key); found != planned_.end()) return found->second;
  PlannedGraph planned;
  if (planning_ != Planning::engines) {
    if (planning_ == Planning::requests)
      requests_.emplace(recipe.key, GraphRequest{recipe, precision, nature});
    planned.graph = std::make_shared<const DnnGraph>(recipe.key);
  } else {
    ChosenEngine chosen = select({recipe, precision, nature});
    if (chosen.is_cut_off) cut_off_.insert(recipe.key);
    planned.refusal = std::move(chosen.refusal);
    if (chosen.graph != nullptr)
      planned.graph = std::make_shared<const DnnGraph>(recipe.key, std::move(chosen));
  }
  return planned_.emplace(recipe.key, std::move(planned)).first->second;
}

/// Returns the number of requested graphs for which no engine was selected yet.
std::size_t DnnPlanner::open_requests() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      requests_, [&](const auto& request) { return !planned_.contains(request.first); }));
}

EngineSearch DnnPlanner::search_for(const GraphRequest& request) {
  const std::string& key = request.recipe.key;
  const EngineRules rules = rules_for(request.precision, request.nature);
  const std::string in_cache = cache_key(target_.info(), rules, key);
  return {.target = target_,
          .rules = rules,
          .nature = request.nature,
          .graph = key,
          .cache_key = in_cache,
          .make = make_graph(request, rules),
          .faulty = cache_.faulty(in_cache),
          .pool = pool_};
}

ChosenEngine DnnPlanner::select(const GraphRequest& request) {
  const std::string& key = request.recipe.key;
  const SelectionTime::Period period(time_);
  // A graph with many engines may take twice its part of the time.
  const double share = 2.0 / static_cast<double>(std::max<std::size_t>(open_requests(), 1));
  EngineSearch search = search_for(request);
  if (const auto built = built_.find(key); built != built_.end()) search.built = &built->second;
  search.deadline = time_.deadline(share);
  ChosenEngine chosen;
  if (is_timing()) {
    chosen = remembered_engine(*search.make(target_), cache_, search.cache_key);
    if (chosen.graph != nullptr)
      log_.write({.graph = key,
                  .engine = chosen.graph->facts(0).name,
                  .seconds = chosen.seconds,
                  .workspace_bytes = chosen.graph->workspace_bytes(0),
                  .is_chosen = true,
                  .is_cached = true});
  }
  if (chosen.graph == nullptr) chosen = choose_engine(search, cache_, log_);
  built_.erase(key);
  return chosen;
}

void DnnPlanner::build_engines(const std::map<std::string, GraphRequest>& requests) {
  if (!is_timing()) return;
  const SelectionTime::Period period(time_);
  std::vector<std::string> keys;
  std::vector<BuildRequest> builds;
  for (const auto& [key, request] : requests) {
    requests_.emplace(key, request);
    if (planned_.contains(key)) continue;
    const EngineSearch search = search_for(request);
    const auto known = cache_.find(search.cache_key);
    if (known && cache_.find_plan(search.cache_key, known->name)) continue;
    keys.push_back(key);
    builds.push_back(build_request(search, known));
  }
  // The rest of a total limit is for timing the engines.
  constexpr double share_of_builds = 0.6;
  // Only graphs with an alternative (batch norm, fused sums) have many engines to be built.
  const auto large = std::ranges::count_if(
      keys, [&](const std::string& key) { return requests.at(key).nature.has_alternative; });
  const std::chrono::duration<double> all(rules_.build_seconds *
                                          static_cast<double>(std::max<std::ptrdiff_t>(large, 1)));
  const auto deadline = time_.is_limited()
                            ? time_.deadline(share_of_builds)
                            : SelectionTime::Clock::now() +
                                  std::chrono::duration_cast<SelectionTime::Clock::duration>(all);
  std::vector<BuiltGraph> built = pool_.build(builds, {deadline});
  for (std::size_t i = 0; i < keys.size(); ++i) built_[keys[i]] = std::move(built[i]);
  pool_.close();  // timing needs the memory of its handles
}

void DnnPlanner::release_engines() {
  built_.clear();
  pool_.close();
}

double DnnPlanner::remembered_seconds(const std::string& what, core::Precision precision,
                                      const std::function<double()>& measure) {
  const std::string key = cache_key(target_.info(), rules_for(precision), what);
  if (const auto known = cache_.find(key)) return known->seconds;
  if (time_.is_over()) {
    cut_off_.insert(what);
    return 0;
  }
  const SelectionTime::Period period(time_);
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
