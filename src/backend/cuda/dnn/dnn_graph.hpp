#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine_choice.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// A graph of cuDNN operations with its chosen engine, ready to run any number of times.
class DnnGraph {
 public:
  DnnGraph(std::unique_ptr<const OperationGraph> operations, std::size_t engine, double seconds);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  const std::string& engine() const { return name_; }  ///< "eng67_k2=4_k13=0"
  double seconds() const { return seconds_; }          ///< as measured; 0 where it was not

  /// Enqueues on the target's stream; allocates no device memory and waits for nothing, so it can
  /// be captured into a CUDA graph, which must not outlive this one. `bindings`: every tensor of
  /// the graph once, in any order. `workspace`: `workspace_bytes()`, aligned to 256 bytes. Throws
  /// `Error` (internal) where cuDNN refuses, or the target is only described.
  void run(std::span<const Binding> bindings, void* workspace) const;

 private:
  std::unique_ptr<const OperationGraph> operations_;
  std::size_t engine_;
  double seconds_;
  std::string name_;
  std::size_t workspace_bytes_;
};

/// A graph, or why the target cannot have it.
struct PlannedGraph {
  std::shared_ptr<const DnnGraph> graph;  ///< null where refused
  std::string refusal;                    ///< one line
};

/// Plans graphs for one target and shares those that are asked for again: layers repeat. A backend
/// owns one; the target outlives it and its graphs.
class DnnPlanner {
 public:
  DnnPlanner(const Target& target, EngineRules rules, EngineCache cache)
      : target_(target), rules_(rules), cache_(std::move(cache)) {}

  const Target& target() const { return target_; }
  const EngineRules& rules() const { return rules_; }
  /// With what the precision adds: true float32 products for fp32, more workspace for float maps.
  EngineRules rules_for(core::Precision precision) const;

  /// `key` says all that the graph depends on; `define` adds its operations and is called once for
  /// each key. At precision fp32 products are not rounded, whatever the rules say.
  const PlannedGraph& plan(const std::string& key, core::Precision precision, GraphNature nature,
                           const std::function<void(OperationGraph&)>& define);

  /// Seconds of something else that was timed here before, or of `measure` now, remembered as the
  /// engines are where they are more than 0.
  double remembered_seconds(const std::string& what, core::Precision precision,
                            const std::function<double()>& measure);

  /// Graphs by key, refused ones included.
  const std::map<std::string, PlannedGraph>& planned() const { return planned_; }

 private:
  const Target& target_;
  EngineRules rules_;
  EngineCache cache_;
  std::map<std::string, PlannedGraph> planned_;
};

/// The type of activations at a precision.
core::DataType activation_type(core::Precision precision);

}  // namespace lockstep::backend::cuda
