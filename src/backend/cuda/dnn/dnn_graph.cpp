#include "dnn_graph.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

/// Returns the graph with the execution plan that an earlier run stored in the cache; null if there
/// is none or no GPU is present.
std::shared_ptr<const DnnGraph> remembered_graph(const OperationGraph& operations,
                                                 const Target& target, const EngineCache& cache,
                                                 const std::string& key) {
  if (!target.is_present()) return nullptr;
  const auto engine = cache.find(key);
  const auto plan = engine ? cache.find_plan(key) : std::nullopt;
  if (!plan) return nullptr;
  auto restored = operations.restored(*plan, engine->name);
  if (restored == nullptr) return nullptr;
  return std::make_shared<const DnnGraph>(std::move(restored), 0, engine->seconds);
}

PlannedGraph make(const Target& target, const EngineRules& rules, const GraphNature& nature,
                  EngineCache& cache, const std::string& key, core::DataType virtual_type,
                  const std::function<void(OperationGraph&)>& define) {
  auto operations = std::make_unique<OperationGraph>(target, virtual_type);
  define(*operations);
  const std::string full_key = cache_key(target.info(), rules, key);
  if (auto remembered = remembered_graph(*operations, target, cache, full_key))
    return {std::move(remembered), {}};
  if (auto refusal = operations->seal()) return {nullptr, *std::move(refusal)};
  const ChosenEngine chosen = choose_engine(*operations, target, rules, nature, cache, full_key);
  if (!chosen.found) return {nullptr, chosen.refusal};
  return {std::make_shared<const DnnGraph>(std::move(operations), chosen.engine, chosen.seconds),
          {}};
}

}  // namespace

DnnGraph::DnnGraph(std::unique_ptr<const OperationGraph> operations, std::size_t engine,
                   double seconds)
    : operations_(std::move(operations)),
      engine_(engine),
      seconds_(seconds),
      name_(operations_->facts(engine).name),
      workspace_bytes_(operations_->workspace_bytes(engine)) {}

void DnnGraph::run(std::span<const Binding> bindings, void* workspace) const {
  if (const auto refusal = operations_->run(engine_, bindings, workspace))
    core::fail(core::ExitStatus::internal,
               fmt::format("cuDNN's engine {} failed: {}", name_, *refusal));
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

const PlannedGraph& DnnPlanner::plan(const std::string& key, core::Precision precision,
                                     GraphNature nature,
                                     const std::function<void(OperationGraph&)>& define) {
  if (const auto found = planned_.find(key); found != planned_.end()) return found->second;
  const EngineRules rules = rules_for(precision);
  const core::DataType virtual_type =
      nature.rounds_inside ? activation_type(precision) : core::DataType::float32;
  return planned_.emplace(key, make(target_, rules, nature, cache_, key, virtual_type, define))
      .first->second;
}

double DnnPlanner::remembered_seconds(const std::string& what, core::Precision precision,
                                      const std::function<double()>& measure) {
  const std::string key = cache_key(target_.info(), rules_for(precision), what);
  if (const auto known = cache_.find(key)) return known->seconds;
  const double seconds = measure();
  if (seconds > 0) cache_.store(key, {.name = what, .seconds = seconds, .workspace_bytes = 0});
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
