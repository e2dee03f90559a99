// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "engine_choice.hpp"
#include "operation_graph.hpp"
#include "selection_time.hpp"

namespace lockstep::backend::cuda {

/// A cuDNN graph with its selected engine; it can be run any number of times.
class DnnGraph {
 public:
  /// `key`: describes the graph in error messages.
  DnnGraph(std::string key, ChosenEngine chosen);
  /// A graph of which only the sizes of the tensors are known: it has no engine and no workspace.
  explicit DnnGraph(std::string key) : key_(std::move(key)) {}

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  const std::string& engine() const { return name_; }  ///< "eng67_k2=4_k13=0"
  double seconds() const { return chosen_.seconds; }   ///< execution time; 0: not timed

  /// Enqueues the graph on the target's stream. It allocates no device memory and does not wait, so
  /// it can be captured into a CUDA graph, which must not outlive this object. `bindings`: every
  /// input and output of the graph once, in any order. `workspace`: `workspace_bytes()`, aligned to
  /// 256 bytes. Throws `Error` (internal), with the key and the engine in the message, if cuDNN
  /// fails or if no GPU is present.
  void run(std::span<const Binding> bindings, void* workspace) const;

 private:
  std::string key_;
  ChosenEngine chosen_;
  std::string name_;
  std::size_t workspace_bytes_ = 0;
};

/// A planned graph, or the reason why the target does not support it.
struct PlannedGraph {
  std::shared_ptr<const DnnGraph> graph;  ///< null if not supported
  std::string refusal;                    ///< the reason, in one line
};

/// Definition of a graph. `key` contains everything that the graph depends on. `define` adds the
/// operations; it must support calls from several threads.
struct GraphRecipe {
  std::string key;
  std::function<void(OperationGraph&)> define;
};

/// What a planner does with the graphs of operations.
enum class Planning {
  engines,     ///< selects engines
  sizes_only,  ///< uses only the sizes of the tensors, for lower bounds of memory
  requests     ///< lists the graphs of all alternatives, whose engines are then built together
};

/// A graph that was requested from a planner with `Planning::requests`.
struct GraphRequest {
  GraphRecipe recipe;
  core::Precision precision = core::Precision::fp32;
  GraphNature nature;
};

/// Plans graphs for one target and shares the graphs of layers with equal shapes. Each backend has
/// one planner. The target must outlive the planner and its graphs.
class DnnPlanner {
 public:
  DnnPlanner(const Target& target, EngineRules rules, EngineCache cache, EngineLog log = {},
             Planning planning = Planning::engines)
      : target_(target),
        rules_(rules),
        cache_(std::move(cache)),
        log_(std::move(log)),
        planning_(planning),
        time_(rules.total_seconds),
        pool_(target, rules.build_threads, rules.progress) {}
  DnnPlanner(const DnnPlanner&) = delete;
  DnnPlanner& operator=(const DnnPlanner&) = delete;

  const Target& target() const { return target_; }
  const EngineRules& rules() const { return rules_; }
  /// Returns the rules adapted to a precision: float32 products without rounding for fp32, and a
  /// larger workspace limit for float32 activations.
  EngineRules rules_for(core::Precision precision) const;
  Planning planning() const { return planning_; }
  /// Returns whether engines and implementations are selected by timing.
  bool is_timing() const {
    return planning_ == Planning::engines && selects_by_timing(target_, rules_);
  }
  /// Returns whether the planner needs the graphs of all alternatives of an operation.
  bool compares_alternatives() const { return is_timing() || planning_ == Planning::requests; }
  EngineLog& log() { return log_; }

  /// Builds the runtime-compiled engines of all requested graphs that are not in the cache
  /// together, before `plan` selects among them; `requests`: of a planner with
  /// `Planning::requests`. Does nothing unless engines are selected by timing. Engines of graphs
  /// that are not requested are built by `plan`.
  void build_engines(const std::map<std::string, GraphRequest>& requests);
  /// Releases the memory of engines that were built and not selected.
  void release_engines();
  /// Returns the graphs that were requested, by key.
  const std::map<std::string, GraphRequest>& requests() const { return requests_; }
  /// Returns the keys of the selections that the time limit (`EngineRules::total_seconds`) cut off.
  const std::set<std::string>& cut_off() const { return cut_off_; }

  /// Returns the graph of `recipe`, and plans it at the first call. At precision fp32, products are
  /// not rounded, whatever the rules say.
  const PlannedGraph& plan(const GraphRecipe& recipe, core::Precision precision,
                           GraphNature nature);

  /// Returns the cached execution time of `what` in seconds, or calls `measure` and stores its
  /// result in the engine cache if it is positive. Returns 0 if the time limit is reached.
  double remembered_seconds(const std::string& what, core::Precision precision,
                            const std::function<double()>& measure);

  /// Returns all planned graphs by key, including unsupported ones.
  const std::map<std::string, PlannedGraph>& planned() const { return planned_; }

 private:
  EngineRules rules_for(core::Precision precision, const GraphNature& nature) const;
  /// Returns the search of an engine for a graph, without engines built before and without limit.
  EngineSearch search_for(const GraphRequest& request);
  ChosenEngine select(const GraphRequest& request);
  std::size_t open_requests() const;

  const Target& target_;
  EngineRules rules_;
  EngineCache cache_;
  EngineLog log_;
  Planning planning_;
  SelectionTime time_;
  EnginePool pool_;
  std::map<std::string, GraphRequest> requests_;
  std::map<std::string, BuiltGraph> built_;  ///< engines that no selection has used yet
  std::map<std::string, PlannedGraph> planned_;
  std::set<std::string> cut_off_;
};

/// Returns the data type of activations at a precision.
core::DataType activation_type(core::Precision precision);

}  // namespace lockstep::backend::cuda
