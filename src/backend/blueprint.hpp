// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>

#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "feature_map.hpp"
#include "fusion.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"
#include "memory_planner.hpp"
#include "operation.hpp"

namespace lockstep::backend {

/// Device-specific part of a blueprint: the layouts of feature maps, and the operations.
class OperationFactory {
 public:
  virtual ~OperationFactory() = default;

  virtual const graph::Graph& graph() const = 0;
  virtual const PlanOptions& options() const = 0;

  /// Called once with all steps before `make`, so that a device can fuse work across
  /// steps.
  virtual void prepare_fusion(const std::vector<Step>&) {}

  /// Returns the feature map of the images, and any other feature map of the given shape; both
  /// without memory.
  virtual FeatureMap image_map(core::ImageShape shape) const = 0;
  virtual FeatureMap feature_map(core::ImageShape shape) const = 0;

  /// Creates the operation of a step; null if the step has no inputs. Called once per step, in
  /// forward order. The maps have no memory yet.
  virtual std::unique_ptr<Operation> make(const Step& step, Operands operands) = 0;

  /// Computes to += from. Used if an operation does not sum all gradients of its output itself.
  virtual void add_into(const FeatureMap& from, const FeatureMap& to) = 0;
};

/// Creates the operation of a step; null if the step has no inputs, because the plan writes its
/// output. Each backend has a type `Context` and, in its namespace, for each type of operation
/// either a function
///   std::unique_ptr<Operation> make_operation(const graph::TYPE&, const Context&, const Step&,
///                                             Operands);
/// or the reason why it does not support the operation,
///   constexpr std::string_view unsupported(const graph::TYPE&, const Context&);
/// If both are missing, this function does not compile. Throws `Error` (usage) if the operation is
/// not supported.
template <class Context>
std::unique_ptr<Operation> build_operation(const Context& context, const Step& step,
                                           Operands operands) {
  return step.operation.visit([&]<class Kind>(const Kind& operation) -> std::unique_ptr<Operation> {
    if constexpr (graph::is_source<Kind>) {
      return nullptr;
    } else if constexpr (requires { unsupported(operation, context); }) {
      core::fail(core::ExitStatus::usage, fmt::format("{}: {}", context.graph->node(step.node).name,
                                                      unsupported(operation, context)));
    } else {
      return make_operation(operation, context, step, std::move(operands));
    }
  });
}

/// Throws `Error` (usage) if an operation would compute the variance of a single value in training.
void refuse_single_values(const graph::Graph& graph, const PlanOptions& options);

/// An execution plan without memory: the operations of a graph, the feature maps between them, and
/// the offsets of these maps in an arena. The memory requirements are known after construction;
/// `bind` then assigns memory, and the plan can run. CPU and GPU plans share this class.
class Blueprint {
 public:
  /// Throws `Error` (usage) if a batch norm would compute the variance of a single value in
  /// training.
  explicit Blueprint(OperationFactory& factory);
  Blueprint(const Blueprint&) = delete;
  Blueprint& operator=(const Blueprint&) = delete;

  std::size_t arena_bytes() const { return arena_bytes_; }
  /// Returns the bytes of both workspaces (`MemoryBinding`).
  std::size_t workspace_bytes() const { return workspace_bytes_ + delayed_workspace_bytes_; }
  std::vector<OperationChoice> choices() const;

  const FeatureMap& images() const { return outputs_.front()->map; }
  const FeatureMap& logits() const;

  /// Return the values at the boundaries of a stage, and their gradients in training. Throw `Error`
  /// (internal) if the graph does not have this boundary.
  const FeatureMap& boundary_input() const;
  const FeatureMap& boundary_input_gradient() const;
  const FeatureMap& boundary_output() const;
  const FeatureMap& boundary_output_gradient() const;

  /// Assigns memory of `arena_bytes` and `workspace_bytes` bytes, aligned as the device requires
  /// (64 bytes on CPUs, 256 on GPUs), which must outlive the blueprint.
  void bind(std::byte* arena, std::byte* workspace, ModelState& state);

  void forward();
  /// Tells the listener after each operation how many leading elements of the flat gradients are
  /// final.
  void backward(core::GradientListener& listener);

 private:
  /// A part of the arena: a feature map, its gradient, or data that an operation saves for
  /// backward.
  struct Slot {
    FeatureMap map;
    Lifetime lifetime;  ///< in the schedule: forward steps, then backward steps
    std::size_t offset = 0;
    Slot* shared = nullptr;  ///< the slot whose memory it uses; null: it has its own

    /// Returns the slot that has the memory, whose lifetime is that of all slots that use it.
    Slot& owner() { return shared != nullptr ? *shared : *this; }
  };

  int forward_time(int step) const { return step; }
  int backward_time(int step) const { return 2 * static_cast<int>(steps_.size()) - 1 - step; }
  std::size_t step_of_backward(int time) const {
    return 2 * steps_.size() - 1 - static_cast<std::size_t>(time);
  }
  bool begins_at_boundary() const;
  bool ends_at_boundary() const { return !factory_.graph().boundary_outputs().empty(); }
  bool training() const { return factory_.options().mode == Mode::training; }
  Slot* new_slot(const FeatureMap& map, int time);
  Slot* new_slot(std::size_t bytes, int time);
  Slot& result_slot() const;
  FeatureMap map_of(const Step& step, const FeatureMap* first_input) const;
  void make_maps();
  void make_operations();
  void share_gradients();
  void size_workspaces();
  void make_saved_slots();
  void find_backward_uses(std::size_t step);
  void choose_recomputed_outputs();
  void place_slots();
  void find_completions();
  void find_filled();
  void hold_back_delayed();
  void run_backward(std::size_t step);
  void tell_ended(std::size_t step, std::string_view phase) const;

  OperationFactory& factory_;
  std::vector<Step> steps_;
  std::deque<Slot> slots_;                           ///< addresses remain valid
  std::vector<Slot*> outputs_;                       ///< by step
  std::vector<Slot*> saved_;                         ///< by step; null if nothing is saved
  std::vector<std::vector<Slot*>> gradients_;        ///< by step: of its output, one per consumer
  std::vector<std::vector<Slot*>> input_gradients_;  ///< by step and input; null if not needed
  std::vector<std::unique_ptr<Operation>> operations_;  ///< by step; null for the input
  /// By step: the steps whose outputs are recomputed before the backward pass of it, in the order
  /// in which they depend on each other.
  std::vector<std::vector<std::size_t>> recomputed_before_;
  /// By step: the steps whose delayed backward pass is complete after the backward pass of it.
  std::vector<std::vector<std::size_t>> completed_after_;
  std::vector<std::size_t> filled_after_;  ///< by step: elements final after its backward
  std::size_t arena_bytes_ = 0;
  std::size_t workspace_bytes_ = 0;
  std::size_t delayed_workspace_bytes_ = 0;
};

}  // namespace lockstep::backend
